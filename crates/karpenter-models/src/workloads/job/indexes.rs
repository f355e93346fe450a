//! Sets of numbers as Kubernetes writes them: `0-3,5`.

use std::collections::BTreeSet;

/// Reads numbers; what cannot be read is left out.
pub(super) fn parse(text: &str) -> BTreeSet<i32> {
    let mut numbers = BTreeSet::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<i32>(), last.parse::<i32>()) {
            numbers.extend(first..=last);
        }
    }
    numbers
}

/// Writes numbers; three or more in a row become a range.
pub(super) fn print(numbers: &BTreeSet<i32>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut left = numbers.iter().copied().peekable();
    while let Some(first) = left.next() {
        let mut last = first;
        while left.peek() == Some(&(last + 1)) {
            last += 1;
            left.next();
        }
        parts.push(match last - first {
            0 => first.to_string(),
            1 => format!("{first},{last}"),
            _ => format!("{first}-{last}"),
        });
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_and_written_alike() {
        for text in ["", "0", "0,1", "0-3,5", "1,3-5,7,8"] {
            assert_eq!(print(&parse(text)), text);
        }
        assert_eq!(parse("2-4,x"), BTreeSet::from([2, 3, 4]));
    }
}
