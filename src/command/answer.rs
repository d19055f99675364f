//! Answers to questions: by rules, then by given inputs; and when an answer was none.

use std::collections::VecDeque;

use crate::domain::result::Evidence;

use super::awaiting::{POLL_QUIET_MS, Wait};
use super::state::Command;

/// A rule gives the same answer to the same question at most so often: what asks for a password
/// again has been given a wrong one,
const SECRET_ANSWERS_MAX: u32 = 3;
/// and what goes on asking in the open does not like the answer.
const ANSWERS_MAX: u32 = 20;
/// Questions that are remembered.
const QUESTIONS_MAX: usize = 64;

/// An answer that a rule or a given input gave.
#[derive(Debug)]
pub(super) struct Answer {
    /// The wait that it was sent to.
    pub token: (i32, u64),
    pub prompt: String,
    pub text: String,
    /// The output has gone on to another line since: what is asked now is asked anew.
    pub line_ended: bool,
}

impl Answer {
    /// What has come after the question and the answer's echo, if it is still the same line.
    pub(super) fn rest_of<'a>(&self, last_line: &'a str) -> Option<&'a str> {
        if self.line_ended {
            return None;
        }
        let rest = last_line.strip_prefix(&*self.prompt)?;
        Some(rest.strip_prefix(self.text.trim_end_matches(['\r', '\n'])).unwrap_or(rest))
    }
}

/// How often a rule has answered the same question: an answer that is wrong is wrong again.
#[derive(Debug, Default)]
pub(super) struct Repeats(VecDeque<Repeat>);

#[derive(Debug)]
struct Repeat {
    rule: usize,
    question: String,
    times: u32,
}

impl Repeats {
    fn are_enough(&self, rule: usize, question: &str, secret: bool) -> bool {
        let most = if secret { SECRET_ANSWERS_MAX } else { ANSWERS_MAX };
        self.0.iter().any(|r| (r.rule, &*r.question) == (rule, question) && r.times >= most)
    }

    fn count(&mut self, rule: usize, question: &str) {
        match self.0.iter_mut().find(|r| (r.rule, &*r.question) == (rule, question)) {
            Some(repeat) => repeat.times += 1,
            None => {
                if self.0.len() == QUESTIONS_MAX {
                    self.0.pop_front();
                }
                self.0.push_back(Repeat { rule, question: question.to_owned(), times: 1 });
            }
        }
    }
}

impl Command {
    /// True while an answer may still do its work: the very wait that it was sent to goes on. A
    /// program in line mode that got no whole line goes on waiting in earnest.
    pub(super) fn answer_is_taking_effect(&self, wait: Wait, last_line: &str, now_ms: u64) -> bool {
        let Some(answer) = self.answered.as_ref().filter(|answer| answer.token == wait.token)
        else {
            return false;
        };
        match wait.evidence {
            // Whoever cannot be examined has the same token in every wait.
            Evidence::QuietPrompt => answer.rest_of(last_line).is_some(),
            Evidence::TtyRead | Evidence::TtyPoll => self.quiet_ms(now_ms) < POLL_QUIET_MS,
        }
    }

    /// The first rule that matches, to be used now. No rule answers the same question again: where
    /// the line is still that of the last answer, only what has come after it counts. Nor does one
    /// answer a question that is asked anew for ever: then it is as if no rule were there.
    pub(super) fn rule_for(&mut self, wait: Wait, last_line: &str) -> Option<usize> {
        let question = match &self.answered {
            Some(answer) if answer.token == wait.token && !answer.line_ended => return None,
            Some(answer) => answer.rest_of(last_line),
            None => None,
        };
        if question == Some("") {
            return None;
        }
        let question = question.unwrap_or(last_line);
        let rule = self.watch.questions.iter().position(|rule| rule.is_match(question))?;
        if self.repeats.are_enough(rule, question, wait.secret) {
            return None;
        }
        self.repeats.count(rule, question);
        Some(rule)
    }
}

#[cfg(test)]
mod tests {
    use crate::command::awaiting::{Sight, Wait};
    use crate::command::event::{Effect, Event};
    use crate::command::tests::{Bench, reads, spec};
    use crate::domain::outcome::CommandState;
    use crate::domain::plan::InputRule;
    use crate::domain::result::Evidence;
    use crate::domain::session::{CommandSpec, UnansweredInput};

    #[test]
    fn answers_come_from_rules_then_from_inputs() {
        let mut bench = Bench::running(CommandSpec {
            on_input: vec![InputRule { pattern: "y/n".to_owned(), send: "y\n".to_owned() }],
            inputs: vec!["bob\n".to_owned()],
            ..spec("x")
        });
        let answered = |text: &str, prompt: &str| {
            let (text, prompt) = (text.to_owned(), prompt.to_owned());
            vec![Effect::Send { text }, Effect::TellAnswered { prompt }]
        };
        assert_eq!(bench.looked(20, reads(1), "Go? y/n "), answered("y\n", "Go? y/n "));
        // It has not woken yet: the same wait gets no second answer.
        assert_eq!(bench.looked(20, reads(1), "Go? y/n "), []);
        assert_eq!(bench.looked(20, reads(2), "Name: "), answered("bob\n", "Name: "));
        assert!(matches!(bench.looked(20, reads(3), "Age: ")[..], [Effect::TellAwaiting { .. }]));
    }

    #[test]
    fn an_answer_that_is_no_whole_line_leaves_the_question_open() {
        let rule = |send: &str| CommandSpec {
            on_input: vec![InputRule { pattern: "y/n|^.".to_owned(), send: send.to_owned() }],
            ..spec("x")
        };
        let mut bench = Bench::running(rule("y"));
        assert!(matches!(bench.looked(20, reads(1), "Go? y/n ")[..], [Effect::Send { .. }, _]));
        assert_eq!(bench.at(1, Event::Output { bytes: b"y", stderr: false }), []);
        assert_eq!(bench.looked(400, reads(1), "Go? y/n y"), [], "it may still wake");
        let told = bench.looked(100, reads(1), "Go? y/n y");
        assert!(matches!(&told[..], [Effect::TellAwaiting { .. }]), "{told:?}");
        assert_eq!(bench.command.state(), CommandState::AwaitingInput);
        assert_eq!(bench.at(5, Event::InputSent), []);
        assert_eq!(bench.looked(20, Sight::Busy, "Go? y/n y"), [Effect::TellResumed]);

        // The next given input may end the line; who does not wait for one ends it.
        let inputs = vec!["y".to_owned(), "\n".to_owned()];
        let unanswered = UnansweredInput::End;
        let mut given = Bench::running(CommandSpec { inputs, unanswered, ..spec("x") });
        for text in ["y", "\n"] {
            let sent = given.looked(600, reads(1), "Go?");
            assert_eq!(sent[0], Effect::Send { text: text.to_owned() });
        }
        assert_eq!(given.looked(600, reads(1), "Go?"), [Effect::Interrupt]);
    }

    #[test]
    fn a_rule_whose_answer_is_wrong_stops_answering() {
        let ask = |secret, count| {
            Sight::Waits(Wait {
                evidence: Evidence::TtyRead,
                secret,
                token: (7, count),
                replaced: false,
            })
        };
        for (secret, most) in [(true, 3), (false, 20)] {
            let rule = |pattern: &str| InputRule {
                pattern: pattern.to_owned(),
                send: format!("{pattern}\n"),
            };
            let mut bench = Bench::running(CommandSpec {
                on_input: vec![rule("word"), rule("login"), rule(".")],
                ..spec("x")
            });
            let end = Event::Output { bytes: b"\r\n", stderr: false };
            for count in 0..most {
                // Two questions that take turns are each asked again, too.
                for (turn, prompt) in ["login: ", "Password: "].into_iter().enumerate() {
                    let token = count * 2 + turn as u64;
                    let effects = bench.looked(20, ask(secret, token), prompt);
                    assert!(
                        matches!(&effects[..], [Effect::Send { .. }, _]),
                        "{count} {effects:?}"
                    );
                    assert_eq!(bench.at(1, end.clone()), []);
                }
            }
            // No later rule takes its place; another question is answered as before.
            let other = bench.looked(20, ask(secret, 1_000), "Sure? ");
            assert_eq!(other[0], Effect::Send { text: ".\n".to_owned() });
            assert_eq!(bench.at(1, end), []);
            let told = bench.looked(20, ask(secret, 1_001), "Password: ");
            assert!(matches!(&told[..], [Effect::TellAwaiting { .. }]), "{told:?}");
        }
    }

    #[test]
    fn no_rule_answers_the_same_question_twice() {
        // What comes after the answer "y", the last line then, and whether the rule answers it.
        for (output, last_line, again) in [
            ("y", "Key? y", false),
            ("", "Key? ", false),
            ("\r\nKey? ", "Key? ", true),
            ("Key? ", "Key? Key? ", true),
            ("y more", "Key? y more", false),
        ] {
            let mut bench = Bench::running(CommandSpec {
                on_input: vec![InputRule { pattern: "^Key".to_owned(), send: "y".to_owned() }],
                ..spec("x")
            });
            assert!(matches!(bench.looked(20, reads(1), "Key? ")[..], [Effect::Send { .. }, _]));
            assert_eq!(bench.at(1, Event::Output { bytes: output.as_bytes(), stderr: false }), []);
            // A key was read, and the program reads the next one.
            let effects = bench.looked(20, reads(2), last_line);
            assert_eq!(matches!(effects[..], [Effect::Send { .. }, _]), again, "{last_line}");
            assert_eq!(matches!(effects[..], [Effect::TellAwaiting { .. }]), !again, "{last_line}");
        }
    }
}
