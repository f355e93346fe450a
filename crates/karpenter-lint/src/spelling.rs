//! Which known word somebody may have meant.

/// The known word that differs least from `written`, if it differs by little.
pub(crate) fn nearest<'k>(written: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    // A third of the word may be wrong, but never more than two letters: beyond that it is another word.
    let most = (written.chars().count() / 3).min(2);
    let close = known.into_iter().filter(|word| *word != written);
    let measured = close.map(|word| (distance(written, word), word));
    measured.filter(|(distance, _)| *distance <= most).min().map(|(_, word)| word)
}

/// How many letters have to be added, removed or changed.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (position, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = position + 1;
        for (index, second) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *second);
            diagonal = row[index + 1];
            row[index + 1] = changed.min(row[index] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_recognised_and_another_word_is_not() {
        let zones = ["test-zone-a", "test-zone-b"];
        assert_eq!(nearest("tset-zone-b", zones), Some("test-zone-b"));
        assert_eq!(nearest("tets-zone-a", zones), Some("test-zone-a"));
        assert_eq!(nearest("eu-central-1a", zones), None);
        assert_eq!(nearest("arm", ["arm64", "amd64"]), None);
        assert_eq!(nearest("", ["a"]), None);
    }

    #[test]
    fn the_distance_counts_letters() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("same", "same"), 0);
    }
}
