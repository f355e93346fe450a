//! Splits a command line into words as a shell does: quotes keep spaces, a backslash keeps the next character.

/// The words of a command.
pub(super) fn split(command: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = characters.next().unwrap_or('\\');
                // Inside double quotes a backslash keeps itself before most characters.
                if quote.is_some() && !matches!(next, '"' | '\\' | '$' | '`') {
                    word.get_or_insert_default().push('\\');
                }
                word.get_or_insert_default().push(next);
            }
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            (_, other) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

/// The first command of a script that contains `called`, its continued lines joined.
pub(super) fn command(script: &str, called: &str, continued: char) -> Option<String> {
    let joined = script.replace("\r\n", "\n").replace(&format!("{continued}\n"), " ");
    let line = joined.lines().find(|line| line.contains(called) && !line.trim_start().starts_with('#'))?;
    Some(line[line.find(called)?..].to_owned())
}
