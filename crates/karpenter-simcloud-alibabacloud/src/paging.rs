//! Pages that are asked for by an opaque token.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::wire::{Params, Refusal};
use crate::world::World;

/// Where a page begins and how long it is.
pub(crate) struct TokenPage {
    kind: &'static str,
    size: usize,
    /// The last entry of the page before.
    after: Option<String>,
}

impl TokenPage {
    /// Reads `MaxResults`, which is brought between `least` and `cap`, and `NextToken`, which must be one of ours for the same kind of list.
    pub(crate) fn read(
        params: &Params,
        kind: &'static str,
        least: usize,
        default: usize,
        cap: usize,
    ) -> Result<Self, Refusal> {
        let size = params.number("MaxResults")?.unwrap_or(default).clamp(least, cap);
        let decode = |token: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(token).ok()?;
            String::from_utf8(bytes).ok()?.strip_prefix(kind)?.strip_prefix('\n').map(str::to_owned)
        };
        let wrong = || Refusal::new(400, "InvalidNextToken", "The specified NextToken is not valid.");
        let after = params.get("NextToken").map(|token| decode(token).ok_or_else(wrong)).transpose()?;
        Ok(Self { kind, size, after })
    }

    /// Whether it is the first page.
    pub(crate) fn first(&self) -> bool {
        self.after.is_none()
    }

    /// The entries of the page and the token of the next one, empty at the end. `all` is sorted by key.
    pub(crate) fn cut<'a, T: ?Sized>(&self, all: &[(&str, &'a T)]) -> (Vec<&'a T>, String) {
        let begin =
            self.after.as_ref().map_or(0, |after| all.partition_point(|(key, _)| *key <= after.as_str()));
        let page: Vec<_> = all[begin..].iter().take(self.size).collect();
        let more = begin + page.len() < all.len();
        let last = page.last().filter(|_| more);
        let token = last.map(|(key, _)| URL_SAFE_NO_PAD.encode(format!("{}\n{key}", self.kind)));
        (page.into_iter().map(|(_, value)| *value).collect(), token.unwrap_or_default())
    }
}

impl World {
    /// Lets disappear what is to disappear between two pages.
    pub(crate) fn vanish(&mut self) {
        for id in std::mem::take(&mut self.switches.vanish_between_pages) {
            self.vswitches.remove(&id);
            crate::life::remove(self, &id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::decode_query;

    #[test]
    fn pages_go_on_behind_the_last_entry_even_if_it_is_gone() {
        let all: Vec<(&str, &str)> = ["a", "b", "c", "d"].into_iter().map(|key| (key, key)).collect();
        let read = |query: &str| TokenPage::read(&Params::new(decode_query(query)), "k", 1, 2, 2).unwrap();
        let (page, token) = read("").cut(&all);
        assert_eq!(page, ["a", "b"]);
        let less: Vec<(&str, &str)> = all.iter().filter(|(key, _)| *key != "b").copied().collect();
        let (page, token) = read(&format!("NextToken={token}")).cut(&less);
        assert_eq!((page, token.as_str()), (vec!["c", "d"], ""));
    }

    #[test]
    fn tokens_of_other_lists_are_refused() {
        let token = URL_SAFE_NO_PAD.encode("other\na");
        let params = Params::new(decode_query(&format!("NextToken={token}")));
        assert!(TokenPage::read(&params, "k", 1, 2, 2).is_err());
    }
}
