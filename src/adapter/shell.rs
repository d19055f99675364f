//! The shell adapter: what the task says is what the shell gets, untouched.

use crate::domain::plan::TaskSpec;

/// The text of a step.
pub(super) fn command(task: &TaskSpec, step: usize) -> Option<&str> {
    let verify = task.verify.as_ref().filter(|_| step == task.run.len());
    task.run.get(step).or(verify).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_in_order_then_verify() {
        let mut task = TaskSpec::new("t", &["a", "b"]);
        let steps = |task: &TaskSpec| -> Vec<Option<String>> {
            (0..4).map(|step| command(task, step).map(str::to_owned)).collect()
        };
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(steps(&task), [some("a"), some("b"), None, None]);
        task.verify = some("check");
        assert_eq!(steps(&task), [some("a"), some("b"), some("check"), None]);
    }
}
