//! Calls that are held until it is known whether somebody else has what they would change.

use std::time::{Duration, Instant};

use callboard::domain::result::{How, Note, Touched};
use callboard::session::wire::{Ask, FactBody};

use super::house::{Session, command, open_as, spec, stage, with};
use crate::house::skipped;

/// A traced session, told that others are alive; `None` where this machine does not trace.
async fn traced(test: &str) -> Option<Session> {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(folder.path());
    spec.traced = true;
    spec.root = Some(spec.cwd.clone());
    let mut session = open_as(stage(), folder, spec).await.unwrap();
    session.link.send(&Ask::Attend { others: true }).unwrap();
    let id = session.begin(command("probe", "true")).await;
    let ended = session.end_of(&id).await;
    if ended.end.notes.iter().any(|note| matches!(note, Note::Untraced { .. })) {
        skipped(test, "sessions are not traced here");
        return None;
    }
    Some(session)
}

async fn question(session: &mut Session) -> (u64, Touched) {
    session
        .until(|fact| match fact {
            FactBody::MayTouch { request, touched, .. } => Some((*request, touched.clone())),
            _ => None,
        })
        .await
}

fn touches(session: &Session) -> Vec<(String, How)> {
    let facts = session.facts.iter().filter_map(|fact| match fact {
        FactBody::Touched { touches } => Some(touches.touched.clone()),
        _ => None,
    });
    facts.flatten().map(|touched| (touched.resource, touched.how)).collect()
}

#[test]
fn a_call_waits_for_its_verdict_and_nothing_else_does() {
    with(async {
        let Some(mut session) = traced("a_call_waits_for_its_verdict").await else { return };
        let id = session.begin(command("c", "echo a > a & echo seen; wait; echo again >> a")).await;
        let (request, touched) = question(&mut session).await;
        assert_eq!((touched.resource.as_str(), touched.mode.as_str()), ("file/a", "write"));
        assert!(!session.folder.path().join("work/a").exists(), "it is held");
        session.until(|fact| matches!(fact, FactBody::Output { .. }).then_some(())).await;
        session.link.send(&Ask::Verdict { request, held_by: None }).unwrap();
        let ended = session.end_of(&id).await;
        assert_eq!(ended.end.exit_code, Some(0), "{ended:?}");
        assert_eq!(touches(&session), [("file/a".to_owned(), How::Traced)]);
        let asked = session.facts.iter().filter(|fact| matches!(fact, FactBody::MayTouch { .. }));
        assert_eq!(asked.count(), 1, "what is ours is not asked about again");
    });
}

#[test]
fn what_another_holds_is_not_written() {
    with(async {
        let Some(mut session) = traced("what_another_holds_is_not_written").await else { return };
        let id = session.begin(command("c", "echo a > a || echo refused; mv none b; cat a")).await;
        let (request, _) = question(&mut session).await;
        session.link.send(&Ask::Verdict { request, held_by: Some("run/x".into()) }).unwrap();
        let ended = session.end_of(&id).await;
        assert!(ended.stdout.contains("refused"), "{ended:?}");
        assert!(ended.stderr.contains("busy"), "{ended:?}");
        assert!(!session.folder.path().join("work/a").exists());
        assert_eq!(touches(&session), []);
        let refused = Note::Refused { resource: "file/a".into(), holder: "run/x".into() };
        let is_noted =
            |fact: &FactBody| matches!(fact, FactBody::Noted { note, .. } if *note == refused);
        assert!(session.facts.iter().any(is_noted), "{:?}", session.facts);
    });
}

#[test]
fn without_a_verdict_it_goes_on_and_is_inferred() {
    with(async {
        let Some(mut session) = traced("without_a_verdict_it_goes_on").await else { return };
        let began = Instant::now();
        let id = session.begin(command("c", "echo a > a")).await;
        let (request, _) = question(&mut session).await;
        let ended = session.end_of(&id).await;
        assert!(began.elapsed() >= Duration::from_millis(250), "it was held");
        assert_eq!(ended.end.exit_code, Some(0), "{ended:?}");
        assert_eq!(touches(&session), [("file/a".to_owned(), How::Inferred)]);
        // Too late, and about nothing any more.
        session.link.send(&Ask::Verdict { request, held_by: Some("run/x".into()) }).unwrap();
        session.link.send(&Ask::Verdict { request: 999, held_by: None }).unwrap();
        session.link.send(&Ask::Attend { others: false }).unwrap();
        let id = session.begin(command("c", "echo b > b; cat b")).await;
        let ended = session.end_of(&id).await;
        assert_eq!(ended.stdout, "b\n");
        assert!(touches(&session).contains(&("file/b".to_owned(), How::Traced)));
    });
}

/// Noise is nobody's, so nobody is asked.
#[test]
fn noise_is_not_asked_about() {
    with(async {
        let Some(mut session) = traced("noise_is_not_asked_about").await else { return };
        std::fs::write(session.folder.path().join("work/.gitignore"), "*.log\n").unwrap();
        let text = "echo > a.log; echo > /dev/null; mkdir target; echo > target/x; echo > /dev/shm/$$; rm /dev/shm/$$; cat a.log";
        let id = session.begin(command("c", text)).await;
        session.end_of(&id).await;
        let asked = session.facts.iter().find(|fact| matches!(fact, FactBody::MayTouch { .. }));
        assert!(asked.is_none(), "{asked:?}");
    });
}
