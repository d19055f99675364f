//! The session's touches: calls that wait are looked at and let go on, what has happened is told.

use std::collections::HashSet;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use super::super::super::os::notify::{Listener, Trace};
use super::asking::Asking;
use super::calls;
use super::ignored::Ignored;
use super::pending::Pending;
use super::scan::Scan;
use super::seen::{Seen, Sign, port_key, seen};
use crate::domain::conflict::Touches;
use crate::domain::ids::CommandId;
use crate::domain::result::{How, Note, Touched};
use crate::domain::session::SessionSpec;
use crate::session::wire::FactBody;

/// Touches are told at most this often.
const TELL_EVERY_MS: u64 = 20;
/// Calls that are looked at before anything else gets its turn.
const CALLS_A_TURN: usize = 256;
/// Touches in one fact.
const TOUCHES_A_FACT: usize = 4096;
/// Resources of one command that are told; those beyond are counted.
const TOLD_MAX: usize = 64 * 1024;

/// What the session's processes change.
pub(in super::super) struct Tracer {
    /// `None`: nothing is a resource.
    root: Option<PathBuf>,
    pub(super) listener: Option<Listener>,
    /// Where the kernel does not tell.
    scan: Option<Scan>,
    /// Why the kernel does not, although it was to: for the first command.
    trouble: Option<String>,
    pub(super) command: Option<CommandId>,
    pub(super) ignored: Ignored,
    pub(super) pending: Pending,
    pub(super) asking: Asking,
    /// Resources that the running command's touches were told of.
    told: HashSet<String>,
    /// Touches of it that were not.
    pub(super) omitted: u64,
    tell_at_ms: Option<u64>,
    pub(super) facts: Vec<FactBody>,
}

impl Tracer {
    /// The filter for a session's shell, if it is to have one.
    pub(in super::super) fn prepare(spec: &SessionSpec) -> Option<io::Result<Trace>> {
        (spec.traced && spec.root.is_some()).then(Trace::prepare)
    }

    /// The shell has its program. `trace`: what `prepare` gave.
    pub(in super::super) fn start(spec: &SessionSpec, trace: Option<io::Result<Trace>>) -> Self {
        let root =
            spec.root.as_ref().map(|root| root.canonicalize().unwrap_or_else(|_| root.clone()));
        let (listener, trouble) = match trace.map(|trace| trace.and_then(Trace::listener)) {
            Some(Ok(listener)) => (Some(listener), None),
            Some(Err(error)) => (None, Some(why_untraced(&error))),
            None => (None, None),
        };
        let scan = root.as_deref().filter(|_| listener.is_none()).map(Scan::before);
        Self {
            ignored: Ignored::of(root.as_deref().unwrap_or(Path::new("/"))),
            root,
            listener,
            scan,
            trouble,
            command: None,
            pending: Pending::default(),
            asking: Asking::default(),
            told: HashSet::new(),
            omitted: 0,
            tell_at_ms: None,
            facts: Vec::new(),
        }
    }

    /// What becomes readable when a call waits.
    pub(in super::super) fn watched(&self) -> Option<BorrowedFd<'_>> {
        self.listener.as_ref().map(Listener::as_fd)
    }

    /// Looks at the calls that wait. Each goes on at once, unless it has to be asked whether it may.
    pub(in super::super) fn serve(&mut self, now_ms: u64) {
        for _ in 0..CALLS_A_TURN {
            let Some(listener) = &self.listener else { return };
            match listener.next() {
                Ok(Some(waiting)) => {
                    let root = self.root.as_deref().unwrap_or(Path::new("/"));
                    let change = calls::read(&waiting);
                    let found = change.map_or_else(Vec::new, |it| seen(root, waiting.pid, &it));
                    // What was read is only its own if it is still there.
                    if listener.is_waiting(waiting.id) {
                        self.take(waiting.id, found, now_ms);
                    }
                }
                Ok(None) => return,
                // Nobody is left whose calls could wait.
                Err(_) => self.listener = None,
            }
        }
    }

    fn take(&mut self, id: u64, mut found: Vec<Seen>, now_ms: u64) {
        found.retain(|seen| {
            let passing = matches!(&seen.sign, Sign::Gone(path, _)
                if self.pending.unmake(&seen.resource, path));
            !passing && !self.told.contains(&seen.resource)
        });
        if self.asking.is_due() && !found.is_empty() {
            found.retain(|seen| !is_ignored(&mut self.ignored, seen, now_ms));
            self.ask(id, found, now_ms);
            return;
        }
        if let Some(listener) = &self.listener {
            listener.go_on(id);
        }
        self.went_on(found, How::Traced, now_ms);
    }

    /// A call was let go on: what of it happens is seen later.
    pub(super) fn went_on(&mut self, found: Vec<Seen>, how: How, now_ms: u64) {
        for seen in found {
            if !self.pending.push(seen, how, now_ms) {
                self.omitted += 1;
            }
            self.tell_at_ms.get_or_insert(now_ms + TELL_EVERY_MS);
        }
    }

    /// What is due.
    pub(in super::super) fn tick(&mut self, now_ms: u64) {
        self.expire(now_ms);
        if self.tell_at_ms.is_some_and(|due| due <= now_ms) {
            self.tell(false, now_ms);
        }
    }

    /// When `tick` has something to do.
    pub(in super::super) fn due(&self) -> Option<u64> {
        self.tell_at_ms.into_iter().chain(self.asking.due()).min()
    }

    pub(super) fn tell(&mut self, is_last: bool, now_ms: u64) {
        let mut happened = self.pending.settle(is_last, now_ms);
        self.tell_at_ms = (!self.pending.is_empty()).then_some(now_ms + TELL_EVERY_MS);
        happened.retain(|(seen, _)| !is_ignored(&mut self.ignored, seen, now_ms));
        let touched = happened.into_iter().map(|(seen, how)| Touched {
            resource: seen.resource,
            mode: seen.mode.to_owned(),
            how,
        });
        self.tell_these(touched.collect());
    }

    fn tell_these(&mut self, touched: Vec<Touched>) {
        let mut news = Vec::new();
        for touched in touched {
            if self.told.contains(&touched.resource) {
                continue;
            }
            if self.told.len() >= TOLD_MAX {
                self.omitted += 1;
                continue;
            }
            self.told.insert(touched.resource.clone());
            news.push(touched);
        }
        for part in news.chunks(TOUCHES_A_FACT) {
            let touches = Touches { command: self.command.clone(), touched: part.to_vec() };
            self.facts.push(FactBody::Touched { touches });
        }
    }

    /// A command begins: what was touched until now was nobody's or the one before's.
    pub(in super::super) fn begin(&mut self, command: &CommandId, now_ms: u64) {
        self.serve(now_ms);
        self.tell(true, now_ms);
        self.forget();
        self.command = Some(command.clone());
        if let Some(scan) = &mut self.scan {
            scan.begin();
        }
    }

    /// A command has ended: all that it touched is told, before its end is. With it goes what its
    /// readers should know.
    pub(in super::super) fn end(&mut self, now_ms: u64) -> Vec<Note> {
        self.serve(now_ms);
        self.tell(true, now_ms);
        let mut notes = Vec::new();
        if let Some(scan) = &mut self.scan {
            let found = scan.end(&mut self.ignored, now_ms);
            let is_whole = found.is_whole;
            self.tell_these(found.touched);
            if !is_whole {
                notes.push(Note::TouchesOmitted { count: 0 });
            }
        }
        if self.omitted > 0 {
            notes.push(Note::TouchesOmitted { count: self.omitted });
        }
        if let Some(message) = self.trouble.take() {
            notes.push(Note::Untraced { message });
        }
        self.forget();
        notes
    }

    fn forget(&mut self) {
        self.command = None;
        self.told.clear();
        self.omitted = 0;
        self.asking.forget();
    }

    /// Where the kernel does not tell, what listens was bound.
    pub(in super::super) fn listens(&mut self, address: SocketAddr) {
        if self.scan.is_some() {
            let resource = port_key(address);
            self.tell_these(vec![Touched {
                resource,
                mode: "bind".to_owned(),
                how: How::Inferred,
            }]);
        }
    }

    /// What there is to tell.
    pub(in super::super) fn take_facts(&mut self) -> Vec<FactBody> {
        std::mem::take(&mut self.facts)
    }
}

fn is_ignored(ignored: &mut Ignored, seen: &Seen, now_ms: u64) -> bool {
    seen.file.as_ref().is_some_and(|(path, is_folder)| ignored.holds(path, *is_folder, now_ms))
}

fn why_untraced(error: &io::Error) -> String {
    if error.raw_os_error() == Some(libc::EBUSY) {
        return "it runs inside of a traced session, and the kernel lets one trace at a time; \
                what it changes is told there"
            .to_owned();
    }
    format!("calls cannot be traced: {error}; what was changed is inferred")
}
