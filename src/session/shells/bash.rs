//! bash: its driver is `session::driver`, over descriptors.

use std::path::Path;

use crate::command::completeness::incomplete_in;

use super::super::driver::{self, descriptor};
use super::table::{Capture, Table, Takes};

pub(super) const TABLE: Table = Table {
    name: "bash",
    places: &["/bin/bash", "/usr/bin/bash"],
    names: &["bash"],
    never: &[],
    argv: |_| {
        let rcfile = format!("/proc/self/fd/{}", descriptor::TEXT);
        let flags = [c"bash", c"--noprofile", c"--noediting", c"--rcfile"];
        let mut argv: Vec<_> = flags.into_iter().map(ToOwned::to_owned).collect();
        argv.push(super::table::argument(Path::new(&rcfile)));
        argv.push(c"-i".to_owned());
        argv
    },
    takes: Takes::Descriptors,
    nudge: driver::NUDGE,
    check: &[c"bash", c"-n"],
    incomplete: incomplete_in,
    closer: None,
    last_line: None,
    profile: Capture {
        files: &[".bash_profile", ".bash_login", ".profile", ".bashrc"],
        argv: &[c"bash", c"--noprofile", c"--norc", c"-i", c"-c"],
        script: include_str!("profile.bash"),
        script_has_no_name: false,
    },
};
