//! The command line's grammar: global flags and verbs.

use clap::{Parser, Subcommand};

use super::verbs::{
    agent, audit, board, doctor, escalation, exec, explain_env, gc, init, plan, policy, report,
    run, serve, session, status, task,
};

/// Hands tasks to capability-tagged agents, each in an isolated terminal session.
#[derive(Debug, Parser)]
#[command(name = "callboard", version, max_term_width = 100, disable_help_subcommand = true)]
#[command(after_help = "Exit codes: 0 all succeeded, 1 a task failed, 2 usage or configuration, \
    3 environment or incomplete, 4 escalated and waiting, 5 internal, 130 interrupted.")]
pub(super) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(super) verb: Verb,
}

/// What can be asked for. The help of each verb is the documentation of its arguments.
#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    Init(init::Init),
    Run(run::Run),
    Plan(plan::Plan),
    Exec(exec::Exec),
    Session(session::Session),
    Task(task::Task),
    Agent(agent::Agent),
    Board(board::Board),
    Escalation(escalation::Escalation),
    Report(report::Report),
    Policy(policy::Policy),
    ExplainEnv(explain_env::ExplainEnv),
    Status(status::Status),
    Doctor(doctor::Doctor),
    Gc(gc::Gc),
    Audit(audit::Audit),
    Serve(serve::Serve),
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_grammar_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_verbs_help_tells_its_exit_codes() {
        for (verb, words) in [
            ("exec", "124 timed out"),
            ("run", "3 only the environment failed"),
            ("task", "2 usage or no such task"),
        ] {
            let mut command = Arguments::command();
            let help = command.find_subcommand_mut(verb).unwrap().render_long_help().to_string();
            assert!(help.contains(words), "{help}");
        }
    }

    #[test]
    fn what_is_taken_and_what_is_not() {
        for (line, taken) in [
            ("init", true),
            ("init --example fullstack", true),
            ("init --example nothing", false),
            ("run", false),
            ("run job.toml", true),
            ("run -", true),
            ("run job.toml --jobs 4 --fail-fast --only a --only b --var A=1 --var B=2", true),
            ("run job.toml --jobs 0", false),
            ("run job.toml --only a --from b", false),
            ("run job.toml --report json=a.json --report junit=b.xml", true),
            ("run job.toml --report yaml=a", false),
            ("run job.toml --report json", false),
            ("run job.toml --var A", false),
            ("run job.toml --detach --report json=a", false),
            ("run --resume R1", true),
            ("run ls", true),
            ("run ls --json", true),
            ("run cancel", false),
            ("run cancel R1", true),
            ("run cancel R1 --json", true),
            ("plan", false),
            ("plan job.toml --json", true),
            ("exec", false),
            ("exec -c true", true),
            ("exec -- ls -l --json", true),
            ("exec ls", false),
            ("exec -c true -- ls", false),
            ("exec -c true --timeout 30s --class build --input y --stop-on ERROR --merge", true),
            ("exec -c true --timeout 30", false),
            ("exec -c true --class slow", false),
            ("exec -c true --env A", false),
            ("report", false),
            ("report R1 --json", true),
            ("explain-env --agent a", true),
            ("explain-env --task t", false),
            ("explain-env --task t --manifest m.toml", true),
            ("policy check", false),
            ("policy check -c true --json", true),
            ("task ls --all --state failed --state timed_out --json", true),
            ("task ls --state done", false),
            ("task show", false),
            ("task logs t1 --attempt 2 --follow --raw --stderr", true),
            ("task logs t1 --attempt 0", false),
            ("task cancel", false),
            ("task cancel a r-1/b", true),
            ("task retry a b", false),
            ("task wait", false),
            ("task wait a b --any --timeout 5s --json", true),
            ("task wait a --any --all", false),
            ("task dispatch", false),
            ("task dispatch --run true --prompt x", false),
            ("task dispatch --run true --needs a --needs b --after t1 --priority -3", true),
            ("task dispatch --run true --class slow", false),
            ("agent ls --json", true),
            ("status --json", true),
            ("doctor --fix --json", true),
            ("serve --http 9464", true),
            ("serve --http-allow-remote", false),
            ("serve", true),
            ("serve --for-client --workspace /w", true),
            ("frobnicate", false),
            ("", false),
        ] {
            let argv = std::iter::once("callboard").chain(line.split_whitespace());
            let parsed = Arguments::try_parse_from(argv);
            assert_eq!(parsed.is_ok(), taken, "{line}: {parsed:?}");
        }
    }

    #[test]
    fn what_escalations_take() {
        for (line, taken) in [
            ("escalation ls --all --json", true),
            ("escalation resolve e-1", false),
            ("escalation resolve e-1 retry --json", true),
            ("escalation resolve e-1 input:", true),
            ("escalation resolve e-1 perhaps", false),
        ] {
            let argv = std::iter::once("callboard").chain(line.split_whitespace());
            let parsed = Arguments::try_parse_from(argv);
            assert_eq!(parsed.is_ok(), taken, "{line}: {parsed:?}");
        }
    }

    #[test]
    fn what_audits_take() {
        for (line, taken) in [
            ("gc --apply --json", true),
            ("audit", false),
            ("audit verify --json", true),
            ("audit show --run r --task a --session s --since 1h --json", true),
            ("audit show --since 2026-01-31T12:00:00Z", true),
            ("audit show --since yesterday", false),
        ] {
            let argv = std::iter::once("callboard").chain(line.split_whitespace());
            let parsed = Arguments::try_parse_from(argv);
            assert_eq!(parsed.is_ok(), taken, "{line}: {parsed:?}");
        }
    }

    #[test]
    fn answers_to_escalations() {
        for (line, taken) in [
            ("escalation ls --all --json", true),
            ("escalation resolve e-1", false),
            ("escalation resolve e-1 retry --json", true),
            ("escalation resolve e-1 input:", true),
            ("escalation resolve e-1 perhaps", false),
        ] {
            let argv = std::iter::once("callboard").chain(line.split(' '));
            assert_eq!(Arguments::try_parse_from(argv).is_ok(), taken, "{line}");
        }
    }
}
