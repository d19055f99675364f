//! `callboard board watch`.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};

use clap::Args;
use serde::Serialize;

use super::{Document, line};
use crate::cli::client::WireError;
use crate::cli::coordinator::{self, Place};
use crate::cli::failure::Failure;
use crate::cli::sources::{current_folder, real_folder};
use crate::cli::{exit, interrupt, output, starter};
use crate::control::{Answer, Call, Notice, Response};
use crate::domain::board::{BoardEntry, Version};
use crate::domain::result::SCHEMA_VERSION;

/// Follow the board: what there is, then every change as it happens
///
/// Goes on over a coordinator's end, with nothing lost or told twice, until it is interrupted. A
/// reader that is too slow is told how many changes it missed, and then everything anew.
///
/// With --json each line is a document with an `event`: `entry`; `anew` (what was told is void, all
/// that there is follows); `through` (everything up to `since` has been told); `gap` (so many changes
/// were `missed`).
#[derive(Debug, Args)]
pub(in crate::cli) struct Watch {
    /// A key, or the beginning of keys up to a `/` [default: everything]
    #[arg(value_name = "PREFIX")]
    prefix: Option<String>,
    /// Tell only what has changed after this version, as `through` and entries print it
    #[arg(long, value_name = "VERSION")]
    since: Option<Version>,
    /// The workspace's root [default: the workspace around here, or else your
    /// private one]
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Print JSON lines
    #[arg(long)]
    pub(super) json: bool,
}

enum Heard {
    Wire(Box<Result<Response, WireError>>),
    Interrupt,
}

impl Watch {
    /// Follows it.
    ///
    /// # Errors
    /// When no coordinator can be had.
    pub(super) fn run(self) -> Result<u8, Failure> {
        let place = match &self.workspace {
            Some(root) => coordinator::open(&real_folder(root)?, None)?,
            None => coordinator::for_command(&current_folder()?)?,
        };
        let (sender, inbox) = channel();
        let interrupts = sender.clone();
        interrupt::watch(move || drop(interrupts.send(Heard::Interrupt))).map_err(Failure::from)?;
        let mut teller = Teller { json: self.json, known: self.since };
        let told = self.prefix.unwrap_or_default();
        loop {
            let heard = sender.clone();
            let hears = move |response| drop(heard.send(Heard::Wire(Box::new(response))));
            match follow(&place, &told, &mut teller, &inbox, hears)? {
                After::Interrupted => return Ok(exit::SUCCEEDED),
                After::Lost => {}
            }
        }
    }
}

enum After {
    Interrupted,
    Lost,
}

/// Follows one coordinator up to its end.
fn follow(
    place: &Place,
    told: &str,
    teller: &mut Teller,
    inbox: &Receiver<Heard>,
    hears: impl FnMut(Result<Response, WireError>) + Send + 'static,
) -> Result<After, Failure> {
    let mut connection = place.connect_or_start()?;
    let call = Call::WatchBoard { told: told.to_owned(), since: teller.known.clone() };
    connection.send(call)?;
    connection.follow(hears)?;
    loop {
        match inbox.recv() {
            Ok(Heard::Interrupt) | Err(_) => return Ok(After::Interrupted),
            Ok(Heard::Wire(response)) => match *response {
                Ok(Response::Notice { notice }) => teller.notice(*notice)?,
                Ok(Response::Reply { answer, .. }) => {
                    if let Answer::WatchingBoard { whole: true } = *answer
                        && teller.known.take().is_some()
                    {
                        teller.tell(&Told::Anew)?;
                    }
                }
                Ok(Response::Refusal { failure, .. }) => return Err(failure.into()),
                Err(error) if starter::is_absence(&error) => return Ok(After::Lost),
                Err(error) => return Err(error.into()),
            },
        }
    }
}

/// Tells what is heard, and keeps how far that goes.
struct Teller {
    json: bool,
    known: Option<Version>,
}

enum Told<'a> {
    Entry(&'a BoardEntry),
    Anew,
    Through(&'a Version),
    Gap(u64),
}

impl Teller {
    fn notice(&mut self, notice: Notice) -> Result<(), Failure> {
        match notice {
            Notice::Board { entry } => {
                self.tell(&Told::Entry(&entry))?;
                // Entries come in the order of their versions: all before are told.
                self.known = Some(entry.version);
            }
            Notice::BoardAnew => {
                self.known = None;
                self.tell(&Told::Anew)?;
            }
            Notice::BoardThrough { version } => {
                self.tell(&Told::Through(&version))?;
                self.known = Some(version);
            }
            Notice::Gap { missed } => self.tell(&Told::Gap(missed))?,
            _ => {}
        }
        Ok(())
    }

    fn tell(&self, told: &Told<'_>) -> Result<(), Failure> {
        #[derive(Serialize)]
        struct Line<'a> {
            event: &'static str,
            #[serde(flatten)]
            entry: Option<Document<'a>>,
            #[serde(skip_serializing_if = "Option::is_none")]
            schema_version: Option<u32>,
            #[serde(skip_serializing_if = "Option::is_none")]
            since: Option<String>,
            #[serde(skip_serializing_if = "Option::is_none")]
            missed: Option<u64>,
        }
        if !self.json {
            return match told {
                Told::Entry(entry) => Ok(output::print(line(entry))?),
                Told::Gap(missed) => {
                    output::note(format!("{missed} changes were missed: everything anew\n"));
                    Ok(())
                }
                Told::Anew | Told::Through(_) => Ok(()),
            };
        }
        let other = |event| Line {
            event,
            entry: None,
            schema_version: Some(SCHEMA_VERSION),
            since: None,
            missed: None,
        };
        let line = match told {
            Told::Entry(entry) => {
                let entry = Some(Document::of(entry));
                Line { entry, schema_version: None, ..other("entry") }
            }
            Told::Anew => other("anew"),
            Told::Through(version) => Line { since: Some(version.to_string()), ..other("through") },
            Told::Gap(missed) => Line { missed: Some(*missed), ..other("gap") },
        };
        let mut text = serde_json::to_vec(&line).map_err(std::io::Error::from)?;
        text.push(b'\n');
        Ok(output::print(text)?)
    }
}
