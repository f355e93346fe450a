//! Pages: a token names the last item that was seen, so that items that come and go in between move no others.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::refusal::Refusal;

/// Items of one page, and what to ask for the next one with.
pub(crate) struct Page<T> {
    pub(crate) items: Vec<T>,
    pub(crate) next: Option<String>,
}

/// Cuts the page behind `token` out of `items`, which are in the order of their keys; `limit` `None` is all of them.
pub(crate) fn page<T>(
    items: Vec<T>,
    key: impl Fn(&T) -> String,
    limit: Option<usize>,
    token: Option<&str>,
) -> Result<Page<T>, Refusal> {
    let after = token.map(read).transpose()?;
    let mut items: Vec<T> =
        items.into_iter().filter(|item| after.as_ref().is_none_or(|after| key(item) > *after)).collect();
    let limit = limit.unwrap_or(usize::MAX).max(1);
    if items.len() <= limit {
        return Ok(Page { items, next: None });
    }
    items.truncate(limit);
    let next = items.last().map(|item| URL_SAFE_NO_PAD.encode(key(item)));
    Ok(Page { items, next })
}

fn read(token: &str) -> Result<String, Refusal> {
    let bytes = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    bytes.ok_or_else(|| Refusal::new("InvalidNextToken", format!("The token '{token}' is invalid")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_continue_behind_the_last_item_seen() {
        let cut = |items: &[&str], token: Option<&str>| {
            let items = items.iter().map(|&item| item.to_owned()).collect();
            page(items, String::clone, Some(2), token).map_err(|_| ()).unwrap()
        };
        let first = cut(&["a", "b", "c", "d"], None);
        assert_eq!(first.items, ["a", "b"]);
        let second = cut(&["c", "d"], first.next.as_deref());
        assert_eq!((second.items, second.next), (vec!["c".to_owned(), "d".to_owned()], None));
    }
}
