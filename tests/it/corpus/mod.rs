//! The labelled corpus: programs that wait for input, and programs that only look as if they did.
//! `docs/awaiting.md` tells what its rows came to.

mod run;
mod tally;
mod waits;
mod works;

/// A program, and whether it waits for input.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// What is run, for people.
    name: &'static str,
    /// The programs that it takes.
    needs: &'static [&'static str],
    /// Run in the session beforehand; it has to succeed.
    before: &'static str,
    /// The command.
    text: &'static str,
    /// What is so.
    label: Label,
    /// Who runs it.
    user: User,
}

/// What is so, whatever is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Label {
    /// It waits for input, and that can be certain.
    Waits,
    /// The same for a password.
    WaitsSecret,
    /// It waits in a poll or cannot be examined: no more than `possible` can be known.
    MayWait,
    /// The same for a password.
    MayWaitSecret,
    /// It does not wait.
    Works,
}

/// Who runs a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum User {
    /// Whoever runs the tests.
    Own,
    /// One without rights: for `root` the session is another user's from the start.
    Plain,
}

const fn row(
    name: &'static str,
    needs: &'static [&'static str],
    text: &'static str,
    label: Label,
) -> Row {
    Row { name, needs, before: "", text, label, user: User::Own }
}
