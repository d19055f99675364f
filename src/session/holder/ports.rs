//! Ports on which the session's processes listen.

use std::collections::HashMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::session::wire::Listener;

use super::proc::Process;

/// How `/proc/net/tcp` writes the state of a listening socket.
const LISTENING: &str = "0A";

/// A service is looked at this often until it is ready.
const UNREADY_EVERY_MS: u64 = 25;
/// And so often afterwards.
const READY_EVERY_MS: u64 = 500;
/// What a command left behind is looked at this often at first.
const LEFT_EVERY_MS: u64 = 250;
/// For so long.
const LEFT_FIRST_MS: u64 = 5_000;
/// And so often as long as it lives.
const LEFT_LATER_MS: u64 = 2_000;

/// When ports are looked at, and what was told of them.
#[derive(Default)]
pub(super) struct PortWatch {
    due_ms: Option<u64>,
    since_ms: u64,
    service: bool,
    /// The service's condition holds.
    pub is_ready: bool,
    told: Vec<Listener>,
}

impl PortWatch {
    /// A service has started.
    pub(super) fn watch_service(&mut self, by_port: bool, now_ms: u64) {
        self.due_ms = Some(now_ms + UNREADY_EVERY_MS);
        self.service = true;
        // Another sign than a port is not looked for here.
        self.is_ready = !by_port;
    }

    /// A command has left processes behind.
    pub(super) fn watch_leftovers(&mut self, now_ms: u64) {
        self.due_ms = Some(now_ms);
        self.since_ms = now_ms;
    }

    /// True when it is time to look.
    pub(super) fn is_due(&self, now_ms: u64) -> bool {
        self.due_ms.is_some_and(|due| due <= now_ms)
    }

    /// When it is time to look.
    pub(super) fn due(&self) -> Option<u64> {
        self.due_ms
    }

    /// A look was taken; `alone`: nothing is left that could listen.
    pub(super) fn looked(&mut self, alone: bool, now_ms: u64) {
        let pause_ms = match (self.service, self.is_ready) {
            (true, false) => UNREADY_EVERY_MS,
            (true, true) => READY_EVERY_MS,
            (false, _) if now_ms.saturating_sub(self.since_ms) < LEFT_FIRST_MS => LEFT_EVERY_MS,
            (false, _) => LEFT_LATER_MS,
        };
        self.service &= !alone;
        self.due_ms = (!alone).then_some(now_ms + pause_ms);
    }

    /// What was last told.
    pub(super) fn known(&self) -> &[Listener] {
        &self.told
    }

    /// What has to be told, if it differs from what was.
    pub(super) fn changed(&mut self, ports: Vec<Listener>) -> Option<Vec<Listener>> {
        if ports == self.told {
            return None;
        }
        self.told.clone_from(&ports);
        Some(ports)
    }
}

/// All listening sockets that the processes hold, sorted.
pub(super) fn listening(processes: &[Process]) -> Vec<Listener> {
    if processes.is_empty() {
        return Vec::new();
    }
    let mut sockets = HashMap::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        sockets
            .extend(fs::read_to_string(table).unwrap_or_default().lines().filter_map(parse_line));
    }
    let mut found = Vec::new();
    if sockets.is_empty() {
        return found;
    }
    for process in processes {
        let Ok(entries) = fs::read_dir(format!("/proc/{}/fd", process.pid)) else { continue };
        for entry in entries.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else { continue };
            let inode = target.to_str().and_then(|target| {
                target.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok()
            });
            if let Some((host, port)) = inode.and_then(|inode| sockets.get(&inode)) {
                found.push(Listener { host: host.to_string(), port: *port, pid: process.pid });
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// True when a process of this machine listens at this very address.
pub(super) fn is_listened_at(address: SocketAddr) -> bool {
    let table = if address.is_ipv4() { "/proc/net/tcp" } else { "/proc/net/tcp6" };
    let sockets = fs::read_to_string(table).unwrap_or_default();
    sockets
        .lines()
        .filter_map(parse_line)
        .any(|(_, (host, port))| SocketAddr::new(host, port) == address)
}

fn parse_line(line: &str) -> Option<(u64, (IpAddr, u16))> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    if *fields.get(3)? != LISTENING {
        return None;
    }
    let (host, port) = fields.get(1)?.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    Some((fields.get(9)?.parse().ok()?, (parse_host(host)?, port)))
}

/// Words of four bytes, each in the machine's own order.
fn parse_host(text: &str) -> Option<IpAddr> {
    let word =
        |at: usize| u32::from_str_radix(text.get(at..at + 8)?, 16).ok().map(u32::to_ne_bytes);
    match text.len() {
        8 => Some(Ipv4Addr::from(word(0)?).into()),
        32 => {
            let mut bytes = [0; 16];
            for (index, part) in bytes.chunks_mut(4).enumerate() {
                part.copy_from_slice(&word(index * 8)?);
            }
            Some(Ipv6Addr::from(bytes).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tables() {
        let line = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1";
        assert_eq!(parse_line(line), Some((4711, ([127, 0, 0, 1].into(), 8080))));
        assert_eq!(parse_line(&line.replace(" 0A ", " 01 ")), None);
        let v6 = "00000000000000000000000001000000";
        assert_eq!(parse_host(v6), Some(IpAddr::V6(Ipv6Addr::LOCALHOST)));
        assert_eq!(parse_line("  sl  local_address rem_address   st"), None);
    }

    #[test]
    fn a_socket_of_this_process_is_found() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let pid = i32::try_from(std::process::id()).unwrap();
        let me = super::super::proc::process(pid).unwrap();
        assert!(listening(&[me]).contains(&Listener { host: "127.0.0.1".to_owned(), port, pid }));
    }
}
