//! Control groups: where the kernel lets us, it holds a session to its limits itself. A group is a
//! folder below the one that the holder is in (v1, a folder for each controller), or beside it (v2,
//! where a group with processes of its own cannot have others below it).

use std::fs::{self, File};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Every group's name begins so; the holder's pid is at its end.
const PREFIX: &str = "callboard-";
/// What of a session's id is in the name, which is for people.
const ID_CHARS_MAX: usize = 64;
/// How often a group that still has somebody in it is tried again: corpses leave late.
const REMOVE_TRIES: u32 = 50;
const REMOVE_PAUSE: std::time::Duration = std::time::Duration::from_millis(2);

/// A controller that limits need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Controller {
    Memory,
    Processes,
}

impl Controller {
    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Processes => "pids",
        }
    }
}

/// How often the kernel has held a session to its limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// Processes that it killed because there was no more memory for them.
    pub kills: u64,
    /// Forks that it refused.
    pub forks: u64,
}

/// The groups of one session; they go with it.
#[derive(Debug, Default)]
pub(super) struct Groups(Vec<Group>);

#[derive(Debug)]
struct Group {
    folder: PathBuf,
    version: Version,
    controllers: Vec<Controller>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Where groups with a controller can be made.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    controller: Controller,
    version: Version,
    /// Where the mount is, and the own group in it.
    mount: PathBuf,
    own: PathBuf,
}

impl Groups {
    /// Makes what the machine allows of the groups that these limits need: bytes of memory, and
    /// processes with their threads. What it does not allow is simply not there.
    pub(super) fn make(session: &str, memory: Option<u64>, processes: Option<u64>) -> Self {
        let mut groups = Self::default();
        if memory.is_none() && processes.is_none() {
            return groups;
        }
        let name = format!("{}{}", name_of(session), std::process::id());
        let wanted = [(Controller::Memory, memory), (Controller::Processes, processes)];
        for (controller, limit) in wanted {
            let Some(limit) = limit else { continue };
            let place = places().into_iter().find(|place| place.controller == controller);
            if let Some((folder, version)) =
                place.and_then(|place| Some((place.parent()?.join(&name), place.version)))
            {
                groups.add(folder, version, controller, limit);
            }
        }
        groups
    }

    fn add(&mut self, folder: PathBuf, version: Version, controller: Controller, limit: u64) {
        let known = self.0.iter().position(|group| group.folder == folder);
        let index = match known {
            Some(index) => index,
            None => {
                if let Some(parent) = folder.parent() {
                    remove_abandoned(parent);
                }
                if fs::create_dir(&folder).is_err() {
                    return;
                }
                self.0.push(Group { folder, version, controllers: Vec::new() });
                self.0.len() - 1
            }
        };
        let group = &mut self.0[index];
        if group.set(controller, limit).is_ok() {
            group.controllers.push(controller);
        } else if group.controllers.is_empty() {
            group.remove();
            self.0.remove(index);
        }
    }

    /// Where a process writes `0` to enter them.
    pub(super) fn entrances(&self) -> Vec<OwnedFd> {
        let open = |group: &Group| File::options().write(true).open(group.folder.join(PROCESSES));
        self.0.iter().filter_map(|group| open(group).ok()).map(OwnedFd::from).collect()
    }

    /// Lets go of those into which this process has not come.
    pub(super) fn keep_those_with(&mut self, pid: i32) {
        let pid = pid.to_string();
        self.0.retain_mut(|group| {
            let members = fs::read_to_string(group.folder.join(PROCESSES)).unwrap_or_default();
            let inside = members.lines().any(|member| member == pid);
            if !inside {
                group.remove();
            }
            inside
        });
    }

    /// True when the kernel enforces it.
    pub(super) fn enforce(&self, controller: Controller) -> bool {
        self.0.iter().any(|group| group.controllers.contains(&controller))
    }

    /// How often it has.
    pub(super) fn held(&self) -> Held {
        let mut held = Held::default();
        for group in &self.0 {
            for controller in &group.controllers {
                match controller {
                    Controller::Memory => {
                        held.kills += group.count(group.memory_events(), "oom_kill")
                    }
                    Controller::Processes => held.forks += group.count("pids.events", "max"),
                }
            }
        }
        held
    }

    /// Removes those that are empty; true when none is left.
    pub(super) fn remove(&mut self) -> bool {
        self.0.retain(|group| !group.remove());
        self.0.is_empty()
    }
}

impl Drop for Groups {
    fn drop(&mut self) {
        for _ in 0..REMOVE_TRIES {
            if self.remove() {
                return;
            }
            std::thread::sleep(REMOVE_PAUSE);
        }
    }
}

/// A group's list of processes.
const PROCESSES: &str = "cgroup.procs";

impl Group {
    fn set(&self, controller: Controller, limit: u64) -> std::io::Result<()> {
        let write = |file: &str, value: &str| {
            File::options()
                .write(true)
                .open(self.folder.join(file))
                .and_then(|mut file| file.write_all(value.as_bytes()))
        };
        let value = limit.to_string();
        match (controller, self.version) {
            (Controller::Processes, _) => write("pids.max", &value),
            (Controller::Memory, Version::One) => {
                write("memory.limit_in_bytes", &value)?;
                // Swap would be memory without a limit; not every kernel counts it.
                drop(write("memory.memsw.limit_in_bytes", &value));
                Ok(())
            }
            (Controller::Memory, Version::Two) => {
                write("memory.max", &value)?;
                drop(write("memory.swap.max", "0"));
                Ok(())
            }
        }
    }

    fn memory_events(&self) -> &'static str {
        match self.version {
            Version::One => "memory.oom_control",
            Version::Two => "memory.events",
        }
    }

    fn count(&self, file: &str, name: &str) -> u64 {
        let text = fs::read_to_string(self.folder.join(file)).unwrap_or_default();
        count_of(&text, name)
    }

    fn remove(&self) -> bool {
        fs::remove_dir(&self.folder).is_ok() || !self.folder.exists()
    }
}

/// The number behind a name, a line each.
fn count_of(text: &str, name: &str) -> u64 {
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(known, _)| *known == name)
        .and_then(|(_, count)| count.trim().parse().ok())
        .unwrap_or(0)
}

impl Place {
    /// The group in which ours is made; `None` where it would not do.
    fn parent(&self) -> Option<PathBuf> {
        if self.version == Version::One || has_below(&self.own, self.controller) {
            return Some(self.own.clone());
        }
        // Beside it a session is out of the limits that are set on the group we are in: they have
        // to hold, so there must be none. A session in a session stays in its group, too.
        let name = self.own.file_name()?.to_string_lossy();
        let limit = fs::read_to_string(self.own.join("memory.max")).ok()?;
        let beside = self.own.parent().filter(|beside| beside.starts_with(&self.mount))?;
        let free = !name.starts_with(PREFIX) && limit.trim() == "max";
        (free && has_below(beside, self.controller)).then(|| beside.to_owned())
    }
}

/// True when groups below this one have the controller.
fn has_below(folder: &Path, controller: Controller) -> bool {
    fs::read_to_string(folder.join("cgroup.subtree_control"))
        .is_ok_and(|list| list.split_ascii_whitespace().any(|name| name == controller.name()))
}

fn places() -> Vec<Place> {
    let read = |file| fs::read_to_string(file).unwrap_or_default();
    places_of(&read("/proc/self/mountinfo"), &read("/proc/self/cgroup"))
}

/// What the two files say, v1 first: where it has a controller, v2 does not.
fn places_of(mounts: &str, own: &str) -> Vec<Place> {
    let mut places = Vec::new();
    for controller in [Controller::Memory, Controller::Processes] {
        for version in [Version::One, Version::Two] {
            let path = own.lines().find_map(|line| {
                let mut parts = line.splitn(3, ':').skip(1);
                let (controllers, path) = (parts.next()?, parts.next()?);
                let fits = match version {
                    Version::One => controllers.split(',').any(|name| name == controller.name()),
                    Version::Two => controllers.is_empty(),
                };
                fits.then(|| Path::new(path))
            });
            let found = path.and_then(|path| {
                mounts.lines().find_map(|line| mounted(line, version, controller, path))
            });
            if let Some((mount, own)) = found {
                places.push(Place { controller, version, mount, own });
            }
        }
    }
    places
}

/// The mount of a line of mountinfo, and the folder of the group `path` in it: `id parent device
/// root mount options … - kind source options`.
fn mounted(
    line: &str,
    version: Version,
    controller: Controller,
    path: &Path,
) -> Option<(PathBuf, PathBuf)> {
    let (first, second) = line.split_once(" - ")?;
    let mut first = first.split(' ').skip(3);
    let (root, mount) = (first.next()?, first.next()?);
    let mut second = second.split(' ');
    let fits = match version {
        Version::One => {
            second.next()? == "cgroup"
                && second.nth(1)?.split(',').any(|name| name == controller.name())
        }
        Version::Two => second.next()? == "cgroup2",
    };
    if !fits || mount.contains('\\') {
        return None;
    }
    let below = path.strip_prefix(root).ok()?;
    let mount = PathBuf::from(mount);
    let own = if below.as_os_str().is_empty() { mount.clone() } else { mount.join(below) };
    Some((mount, own))
}

/// For each controller, whether a group can be made here.
pub(super) fn offered() -> Vec<(&'static str, bool)> {
    let places = places();
    let can = |controller| {
        let place = places.iter().find(|place| place.controller == controller);
        let parent = place.and_then(Place::parent);
        parent
            .is_some_and(|parent| rustix::fs::access(parent, rustix::fs::Access::WRITE_OK).is_ok())
    };
    [Controller::Memory, Controller::Processes].map(|c| (c.name(), can(c))).into()
}

/// The groups of holders that were killed; a group that has anybody in it is left out.
pub fn abandoned() -> Vec<PathBuf> {
    let parents =
        places().iter().filter_map(Place::parent).collect::<std::collections::BTreeSet<_>>();
    let groups = parents.iter().flat_map(|parent| abandoned_in(parent));
    let is_empty = |group: &PathBuf| {
        fs::read_to_string(group.join(PROCESSES)).is_ok_and(|members| members.trim().is_empty())
    };
    groups.filter(is_empty).collect()
}

/// Removes the groups of holders that were killed, with those they had made for.
pub fn tidy() {
    for place in places() {
        if let Some(parent) = place.parent() {
            remove_abandoned(&parent);
        }
    }
}

/// The processes in groups that were made for this session, by whichever holder it had.
pub(super) fn members(session: &str) -> Vec<i32> {
    let name = name_of(session);
    let parents = places().into_iter().filter_map(|place| place.parent());
    parents.flat_map(|parent| members_below(&parent, &name)).collect()
}

fn members_below(parent: &Path, name: &str) -> Vec<i32> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let is_its = |entry: &fs::DirEntry| {
        let folder = entry.file_name();
        let holder = folder.to_str().and_then(|folder| folder.strip_prefix(name));
        holder.is_some_and(|holder| holder.parse::<u32>().is_ok())
    };
    let its = entries.flatten().filter(is_its);
    its.flat_map(|group| {
        let members = fs::read_to_string(group.path().join(PROCESSES)).unwrap_or_default();
        members.lines().filter_map(|pid| pid.parse().ok()).collect::<Vec<i32>>()
    })
    .collect()
}

/// What the names of a session's groups begin with; the holder's pid follows.
fn name_of(session: &str) -> String {
    let legible = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let id: String = session.chars().take(ID_CHARS_MAX).map(legible).collect();
    format!("{PREFIX}{id}-")
}

/// A group that has anybody in it cannot be removed.
fn remove_abandoned(parent: &Path) {
    for group in abandoned_in(parent) {
        drop(fs::remove_dir(group));
    }
}

/// Those whose holder is gone.
fn abandoned_in(parent: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let is_abandoned = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        let holder = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX))
            .and_then(|name| name.rsplit('-').next()?.parse::<u32>().ok());
        holder.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    };
    entries.flatten().filter(is_abandoned).map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(controller: Controller, version: Version, mount: &str, own: &str) -> Place {
        Place { controller, version, mount: mount.into(), own: own.into() }
    }

    #[test]
    fn places_are_found_in_both_versions() {
        let mounts = "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
             39 31 0:36 /docker/1 /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids\n\
             41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
        let own = "8:pids:/docker/1/sub\n4:memory:/\n1:cpu,cpuacct:/x\n0::/user.slice/a.scope\n";
        let (memory, processes) = (Controller::Memory, Controller::Processes);
        let unified = "/sys/fs/cgroup/unified";
        let scope = "/sys/fs/cgroup/unified/user.slice/a.scope";
        let expected = [
            place(memory, Version::One, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory"),
            place(memory, Version::Two, unified, scope),
            place(processes, Version::One, "/sys/fs/cgroup/pids", "/sys/fs/cgroup/pids/sub"),
            place(processes, Version::Two, unified, scope),
        ];
        assert_eq!(places_of(mounts, own), expected);
        // A group outside of what is mounted here cannot be had.
        assert_eq!(places_of(mounts, "8:pids:/docker/2\n"), []);
        assert_eq!(places_of("", own), []);
    }

    #[test]
    fn a_sessions_members_are_those_of_its_own_groups() {
        let parent = tempfile::tempdir().unwrap();
        for (folder, members) in [
            (format!("{}17", name_of("s-ab")), "3\n5\n"),
            (format!("{}18", name_of("s-ab")), "7\n"),
            (format!("{}18", name_of("s-abc")), "8\n"),
            (format!("{}x", name_of("s-ab")), "9\n"),
        ] {
            fs::create_dir(parent.path().join(&folder)).unwrap();
            fs::write(parent.path().join(folder).join(PROCESSES), members).unwrap();
        }
        let mut members = members_below(parent.path(), &name_of("s-ab"));
        members.sort_unstable();
        assert_eq!(members, [3, 5, 7]);
        assert!(members_below(&parent.path().join("none"), "x").is_empty());
    }

    #[test]
    fn in_version_two_a_group_is_made_where_controllers_are_handed_down() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("app.slice/a.scope");
        fs::create_dir_all(&own).unwrap();
        let slice = own.parent().unwrap();
        let write = |file: PathBuf, text: &str| fs::write(file, text).unwrap();
        let place = |own: &Path| Place {
            controller: Controller::Processes,
            version: Version::Two,
            mount: folder.path().to_owned(),
            own: own.to_owned(),
        };
        write(own.join("cgroup.subtree_control"), "\n");
        write(own.join("memory.max"), "max\n");
        write(slice.join("cgroup.subtree_control"), "cpu memory pids\n");
        assert_eq!(place(&own).parent().as_deref(), Some(slice));
        // Whatever holds the group that we are in has to hold its sessions.
        write(own.join("memory.max"), "1048576\n");
        assert_eq!(place(&own).parent(), None);
        write(own.join("memory.max"), "max\n");
        write(slice.join("cgroup.subtree_control"), "cpu\n");
        assert_eq!(place(&own).parent(), None);
        write(own.join("cgroup.subtree_control"), "memory pids\n");
        assert_eq!(place(&own).parent(), Some(own));
    }

    #[test]
    fn counts() {
        let v1 = "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n";
        assert_eq!(count_of(v1, "oom_kill"), 3);
        let v2 = "low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n";
        assert_eq!((count_of(v2, "oom_kill"), count_of("max 4\n", "max")), (1, 4));
        assert_eq!(count_of("", "max"), 0);
    }

    #[test]
    fn only_the_groups_of_holders_that_are_gone_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let alive = format!("callboard-s-{}", std::process::id());
        for name in ["callboard-s-999999999", &alive, "other-999999999"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_abandoned(folder.path());
        assert!(!folder.path().join("callboard-s-999999999").exists());
        assert!(folder.path().join(&alive).exists());
        assert!(folder.path().join("other-999999999").exists());
    }
}
