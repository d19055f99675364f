//! Laws of recalls: whatever a run was, its records give it back, at every point of them.

use proptest::prelude::*;
use rand::SeedableRng as _;
use rand::rngs::Xoshiro256PlusPlus;

use super::laws::a_case;
use super::player::{Facts, Player, Retries, picture, recall, retries, run, story};
use crate::domain::event::{CancelWhy, Event as Fact};
use crate::domain::ids::AttemptId;
use crate::domain::outcome::TaskState;
use crate::scheduler::Schedule;
use crate::scheduler::event::{Effect, EndWhy, Event};

/// Points of one run that are looked at.
const POINTS: usize = 12;

fn played(case: &super::laws::Case) -> Player {
    let mut player = Player::new(case);
    player.play(Event::Begin);
    player.check_end();
    player
}

/// Drops, repeats and swaps records, and puts in some that nothing was ever like.
fn mangle(facts: &Facts, rng: &mut Xoshiro256PlusPlus) -> Facts {
    let mut mangled = Facts::new();
    for (at, fact) in facts {
        match rng.random_range(0..12) {
            0 => {}
            1 => mangled.extend([(*at, fact.clone()), (*at, fact.clone())]),
            2 => mangled.insert(rng.random_range(0..=mangled.len()), (*at, fact.clone())),
            3 => mangled.extend([(*at, nonsense(rng)), (*at, fact.clone())]),
            _ => mangled.push((*at, fact.clone())),
        }
    }
    mangled
}

fn nonsense(rng: &mut Xoshiro256PlusPlus) -> Fact {
    let task = [0, 1, 7, usize::MAX][rng.random_range(0..4)];
    let name = ["t0", "t1", "x3", "nobody"][rng.random_range(0..4)];
    let number = [0, 1, 2, u32::MAX][rng.random_range(0..4)];
    let attempt = AttemptId { run: run(), task: name.into(), attempt: number };
    match rng.random_range(0..8) {
        0 => Fact::AttemptStarted { attempt, agent: "agent0".into(), session: "s".into() },
        1 => Fact::AttemptStarted { attempt, agent: "nobody".into(), session: "s".into() },
        2 => Fact::AttemptReady { attempt },
        3 => Fact::TaskCancelled { run: run(), task },
        4 => Fact::TaskRetried { run: run(), task },
        5 => Fact::RunSealed { run: run() },
        6 => Fact::RunCancelled { run: run(), why: CancelWhy::ClientLost },
        _ => Fact::TaskSettled { run: run(), task, state: TaskState::Skipped, reason: None },
    }
}

/// The picture, but for which of several lost conditions a skipped task names: all are true, and the
/// first that comes by is named.
fn without_causes(schedule: &Schedule) -> Vec<String> {
    let cut = |line: String| match line.split_once(" Some(Task(Dependency") {
        Some((before, _)) if before.contains(": Skipped ") => before.to_owned(),
        _ => line,
    };
    picture(schedule).into_iter().map(cut).collect()
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Once all records of a step are there, they give the machine that took it, and it has nothing
    /// to decide but what it may ask of attempts anew.
    #[test]
    fn the_records_are_the_run(case in a_case()) {
        let player = played(&case);
        let every = player.shots.len() / POINTS + 1;
        for shot in player.shots.iter().rev().step_by(every) {
            let facts = &player.facts[..shot.facts];
            let mut recall = recall(facts);
            prop_assert_eq!(recall.misfits().1, 0, "{:?}\n{}", recall.misfits().0, story(facts));
            let mut schedule = recall.take(&run()).unwrap().schedule;
            prop_assert_eq!(schedule.next_deadline(), None, "nothing is due in a recall");
            for effect in schedule.step(Event::GoOn, shot.at) {
                let is_known = match &effect {
                    Effect::End { why, .. } => {
                        matches!(why, EndWhy::ServiceDone | EndWhy::Unanswered)
                    }
                    Effect::Moved { state, .. } => *state == TaskState::Ready,
                    Effect::Start { .. } | Effect::RunEnded { .. } => false,
                };
                prop_assert!(is_known, "{:?} was not decided\n{}", effect, story(facts));
            }
            prop_assert_eq!(&picture(&schedule), &shot.picture, "{}", story(facts));
        }
    }

    /// Wherever the records break off, the run goes on from there to a lawful end, and waits for
    /// its retries as long as it would have.
    #[test]
    fn a_run_that_was_cut_off_goes_on(case in a_case(), seed in any::<u64>()) {
        let player = played(&case);
        let known: Retries = player.shots.iter().flat_map(|shot| shot.retries.clone()).collect();
        let every = player.facts.len() / POINTS + 1;
        for cut in (1..=player.facts.len()).rev().step_by(every) {
            let facts = &player.facts[..cut];
            let recalled = recall(facts).take(&run()).unwrap();
            for (key, until) in retries(&recalled.schedule) {
                let before = known.get(&key).copied().unwrap_or(until);
                prop_assert_eq!(until, before, "{:?}\n{}", key, story(facts));
            }
            let mut next = Player::after(facts, recalled, seed);
            next.play(Event::GoOn);
            next.check_end();
        }
    }

    /// What is told twice has happened once.
    #[test]
    fn a_repeated_record_changes_nothing(case in a_case()) {
        let player = played(&case);
        let twice: Facts =
            player.facts.iter().flat_map(|line| [line.clone(), line.clone()]).collect();
        let (once, twice) = (recall(&player.facts), recall(&twice));
        let (once_run, twice_run) = (once.run(&run()).unwrap(), twice.run(&run()).unwrap());
        prop_assert_eq!(without_causes(&once_run.schedule), without_causes(&twice_run.schedule));
        prop_assert_eq!(once_run.ended, twice_run.ended);
        prop_assert_eq!(once.ended().count(), twice.ended().count());
        prop_assert_eq!(once_run.running(), twice_run.running());
    }

    /// Records that make no sense do not make a run that never ends, nor a panic.
    #[test]
    fn nonsense_is_survived(case in a_case(), seed in any::<u64>()) {
        let player = played(&case);
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let facts = mangle(&player.facts, &mut rng);
        let Some(recalled) = recall(&facts).take(&run()) else { return Ok(()) };
        prop_assert_eq!(recalled.plan.tasks.len() >= recalled.schedule.members().len(), true);
        let mut next = Player::after(&facts, recalled, seed);
        next.lawful = false;
        next.play(Event::GoOn);
    }
}
