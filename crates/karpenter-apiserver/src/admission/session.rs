//! What one request has learnt from webhooks so far.
//!
//! Verbs are synchronous. One that meets a webhook without an answer leaves the question here and gives up; the
//! service asks, keeps the verdict here, and runs the verb again, which now gets past that point. Nothing is written
//! before all questions are answered. What the verb draws from time and chance is remembered, so that the object that
//! is stored is the object that was judged.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

use super::question::{Question, Verdict};
use crate::error::ApiError;

/// How often a request may be run again: once for each mutating webhook, and when objects change meanwhile.
pub(crate) const ROUNDS_MAX: usize = 64;

/// The memory of one request.
#[derive(Debug, Default)]
pub(crate) struct Session {
    memory: RefCell<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    verdicts: HashMap<String, Verdict>,
    questions: Vec<Question>,
    warnings: Vec<String>,
    /// What was drawn, by what for, in order; and how many of each this run has used.
    drawn: BTreeMap<&'static str, Vec<String>>,
    used: BTreeMap<&'static str, usize>,
}

impl Session {
    /// Draws a value; runs after the first get what the first drew.
    pub(crate) fn draw(&self, purpose: &'static str, fresh: impl FnOnce() -> String) -> String {
        let mut memory = self.memory.borrow_mut();
        let used = memory.used.entry(purpose).or_default();
        let index = *used;
        *used += 1;
        let drawn = memory.drawn.entry(purpose).or_default();
        if index == drawn.len() {
            drawn.push(fresh());
        }
        drawn[index].clone()
    }

    /// Returns the verdict on a question, or notes the question.
    pub(super) fn verdict(&self, question: Question) -> Option<Verdict> {
        let mut memory = self.memory.borrow_mut();
        let known = memory.verdicts.get(&question.key).cloned();
        if known.is_none() {
            memory.questions.push(question);
        }
        known
    }

    /// Adds a warning for the client.
    pub(crate) fn warn(&self, warning: String) {
        let mut memory = self.memory.borrow_mut();
        if !memory.warnings.contains(&warning) {
            memory.warnings.push(warning);
        }
    }

    /// Takes the questions this run left, and prepares for the next run when there are some.
    pub(crate) fn take_questions(&self) -> Vec<Question> {
        let mut memory = self.memory.borrow_mut();
        let questions = std::mem::take(&mut memory.questions);
        if !questions.is_empty() {
            memory.warnings.clear();
            memory.used.clear();
        }
        questions
    }

    /// Keeps a verdict.
    pub(crate) fn learn(&self, key: String, verdict: Verdict) {
        self.memory.borrow_mut().verdicts.insert(key, verdict);
    }

    /// Takes the warnings of the last run.
    pub(crate) fn take_warnings(&self) -> Vec<String> {
        std::mem::take(&mut self.memory.borrow_mut().warnings)
    }
}

/// The error with which a verb gives up while a question is open; no client sees it.
pub(super) fn waiting() -> ApiError {
    ApiError::internal("an admission webhook has not been asked: send the request through the service")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_run_draws_what_the_first_drew() {
        let session = Session::default();
        let numbers = RefCell::new(0..);
        let fresh = || numbers.borrow_mut().next().unwrap_or_default().to_string();
        let first = (session.draw("uid", fresh), session.draw("uid", fresh), session.draw("name", fresh));
        session.memory.borrow_mut().questions.push(Question::default());
        assert_eq!(session.take_questions().len(), 1);
        let second = (session.draw("uid", fresh), session.draw("uid", fresh), session.draw("name", fresh));
        assert_eq!(first, second);
        assert_eq!(session.draw("uid", fresh), "3");
    }
}
