//! Commands of a shell script, as far as boot scripts need: words, quotes, comments and what separates commands.

/// The commands of a script, each as its words.
pub(crate) fn commands(script: &str) -> Result<Vec<Vec<String>>, String> {
    let mut lexer = Lexer::default();
    let mut characters = script.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some('\n') | None => {}
                Some(escaped) => lexer.push(escaped),
            },
            '\'' => {
                lexer.begin();
                loop {
                    match characters.next() {
                        Some('\'') => break,
                        Some(quoted) => lexer.push(quoted),
                        None => return Err("a single quote is never closed".to_owned()),
                    }
                }
            }
            '"' => {
                lexer.begin();
                double_quoted(&mut lexer, &mut characters)?;
            }
            '#' if lexer.word.is_none() => while characters.next_if(|next| *next != '\n').is_some() {},
            ' ' | '\t' => lexer.end_word(),
            '\n' | ';' | '|' | '&' | '(' | ')' | '<' | '>' => lexer.end_command(),
            other => lexer.push(other),
        }
    }
    lexer.end_command();
    Ok(lexer.commands)
}

fn double_quoted(
    lexer: &mut Lexer,
    characters: &mut std::iter::Peekable<std::str::Chars<'_>>,
) -> Result<(), String> {
    loop {
        match characters.next() {
            Some('"') => return Ok(()),
            Some('\\') => match characters.next() {
                Some(escaped @ ('"' | '\\' | '$' | '`')) => lexer.push(escaped),
                Some('\n') => {}
                Some(other) => {
                    lexer.push('\\');
                    lexer.push(other);
                }
                None => return Err("a double quote is never closed".to_owned()),
            },
            Some(quoted) => lexer.push(quoted),
            None => return Err("a double quote is never closed".to_owned()),
        }
    }
}

#[derive(Default)]
struct Lexer {
    commands: Vec<Vec<String>>,
    command: Vec<String>,
    word: Option<String>,
}

impl Lexer {
    fn begin(&mut self) {
        self.word.get_or_insert_default();
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    fn end_word(&mut self) {
        self.command.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        if !self.command.is_empty() {
            self.commands.push(std::mem::take(&mut self.command));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_join_and_operators_part() {
        let found = commands("#!/bin/sh\ncurl x | bash -s -- 'a b' \"c\\\"d\"e \\\n f # note\necho 1;echo 2")
            .unwrap();
        assert_eq!(
            found,
            [
                vec!["curl", "x"],
                vec!["bash", "-s", "--", "a b", "c\"de", "f"],
                vec!["echo", "1"],
                vec!["echo", "2"]
            ]
        );
    }

    #[test]
    fn a_value_that_is_not_quoted_ends_at_an_operator() {
        let found = commands("join --labels a=b&c --taints x").unwrap();
        assert_eq!(found[0], ["join", "--labels", "a=b"]);
    }

    #[test]
    fn an_open_quote_is_an_error() {
        assert!(commands("echo 'x").is_err());
    }
}
