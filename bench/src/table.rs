//! Tables in Markdown with aligned columns: readable in a terminal and in a report.

/// A table; numbers are aligned to the right, the first column to the left.
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new<const N: usize>(heading: [&str; N]) -> Self {
        Self { rows: vec![heading.map(str::to_owned).into()] }
    }

    pub(crate) fn add<const N: usize>(&mut self, row: [String; N]) {
        debug_assert_eq!(self.rows[0].len(), N, "every row has the heading's columns");
        self.rows.push(row.into());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.len() == 1
    }

    pub(crate) fn render(&self) -> String {
        let widths: Vec<usize> = (0..self.rows[0].len())
            .map(|column| {
                self.rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default().max(3)
            })
            .collect();
        let mut text = String::new();
        for (index, row) in self.rows.iter().enumerate() {
            text.push_str(&line(row, &widths));
            if index == 0 {
                let rule = |(column, width): (usize, &usize)| {
                    if column == 0 { "-".repeat(*width) } else { format!("{}:", "-".repeat(width - 1)) }
                };
                let rules: Vec<String> = widths.iter().enumerate().map(rule).collect();
                text.push_str(&line(&rules, &widths));
            }
        }
        text
    }
}

fn line(cells: &[String], widths: &[usize]) -> String {
    let pad = |(column, (cell, width)): (usize, (&String, &usize))| {
        if column == 0 { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
    };
    let cells: Vec<String> = cells.iter().zip(widths).enumerate().map(pad).collect();
    format!("| {} |\n", cells.join(" | "))
}

/// A number with three or four significant digits and no exponent.
pub(crate) fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        size if size >= 0.01 => 4,
        0.0 => 0,
        _ => 6,
    };
    format!("{value:.decimals$}")
}

/// How many times `left` is of `right`.
pub(crate) fn times(left: f64, right: f64) -> String {
    if right > 0.0 { format!("{}×", number(left / right)) } else { "–".to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(["file", "pods"]);
        table.add(["a".to_owned(), "10000".to_owned()]);
        assert_eq!(table.render(), "| file |  pods |\n| ---- | ----: |\n| a    | 10000 |\n");
    }

    #[test]
    fn numbers_keep_their_significant_digits() {
        let shown = [0.0, 0.000_123, 0.012_34, 1.234, 110.94, 6929.4].map(number);
        assert_eq!(shown, ["0", "0.000123", "0.0123", "1.23", "110.9", "6929"]);
    }
}
