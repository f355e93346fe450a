//! What differs between two texts, line by line.

/// Lines of context around a difference.
const CONTEXT: usize = 2;
/// Beyond this many pairs of lines, what differs is shown as replaced.
const PAIRS_MAX: usize = 4_000_000;

/// Returns the lines that go (`-`), come (`+`) and stay around them; empty when nothing differs.
pub fn line_diff(before: &str, after: &str) -> String {
    let (before, after): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let lines = aligned(&before, &after);
    let is_change = |index: usize| lines[index].0 != ' ';
    let mut text = String::new();
    let mut shown_until = 0;
    for index in 0..lines.len() {
        let nearby = index.saturating_sub(CONTEXT)..(index + CONTEXT + 1).min(lines.len());
        if !nearby.into_iter().any(is_change) {
            continue;
        }
        if index > shown_until {
            text.push_str("  ...\n");
        }
        shown_until = index + 1;
        let (mark, line) = lines[index];
        text.push_str(format!("{mark} {line}").trim_end());
        text.push('\n');
    }
    text
}

/// All lines of both texts, with the longest common part said once.
fn aligned<'t>(before: &[&'t str], after: &[&'t str]) -> Vec<(char, &'t str)> {
    let start = before.iter().zip(after).take_while(|(one, other)| one == other).count();
    let (left, right) = (&before[start..], &after[start..]);
    let end = left.iter().rev().zip(right.iter().rev()).take_while(|(one, other)| one == other).count();
    let (left, right) = (&left[..left.len() - end], &right[..right.len() - end]);
    let mut lines: Vec<(char, &str)> = before[..start].iter().map(|line| (' ', *line)).collect();
    let common = if left.len() * right.len() > PAIRS_MAX { Vec::new() } else { common_lines(left, right) };
    let (mut one, mut other) = (0, 0);
    for (next_one, next_other) in common.into_iter().chain([(left.len(), right.len())]) {
        lines.extend(left[one..next_one].iter().map(|line| ('-', *line)));
        lines.extend(right[other..next_other].iter().map(|line| ('+', *line)));
        lines.extend(left.get(next_one).map(|line| (' ', *line)));
        (one, other) = (next_one + 1, next_other + 1);
    }
    lines.extend(before[before.len() - end..].iter().map(|line| (' ', *line)));
    lines
}

/// Positions of a longest common sequence.
fn common_lines(left: &[&str], right: &[&str]) -> Vec<(usize, usize)> {
    let width = right.len() + 1;
    let mut longest = vec![0_u32; (left.len() + 1) * width];
    for i in (0..left.len()).rev() {
        for j in (0..right.len()).rev() {
            longest[i * width + j] = if left[i] == right[j] {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut common) = (0, 0, Vec::new());
    while i < left.len() && j < right.len() {
        if left[i] == right[j] {
            common.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_shown_with_its_surroundings() {
        assert_eq!(line_diff("a\nb\n", "a\nb\n"), "");
        assert_eq!(line_diff("", "a\n"), "+ a\n");
        assert_eq!(line_diff("a\n", ""), "- a\n");
        let before = "1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let after = "1\n2\n3\n4\nfive\n6\n7\n8\n9\nten\n";
        assert_eq!(line_diff(before, after), "  ...\n  3\n  4\n- 5\n+ five\n  6\n  7\n  8\n  9\n+ ten\n");
        assert_eq!(line_diff("a\nx\nb\ny\n", "a\nb\nz\ny\n"), "  a\n- x\n  b\n+ z\n  y\n");
    }
}
