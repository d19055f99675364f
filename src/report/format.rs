//! The formats of `--report FORMAT=PATH`.

use std::str::FromStr;

use thiserror::Error;

use super::record::RunReport;
use super::{html, json, junit, markdown};

/// A format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Format {
    /// The whole record.
    Json,
    /// For CI systems.
    Junit,
    /// For a pull request's comment.
    Markdown,
    /// One page that stands alone.
    Html,
}

/// Why a report could not be written.
#[derive(Debug, Error)]
pub enum ReportError {
    /// A name that is no format.
    #[error("`{0}` is not a report format: it is one of json, junit, markdown, html")]
    UnknownFormat(String),
    /// The record cannot be put as JSON.
    #[error("the report cannot be put as JSON")]
    Json(#[from] serde_json::Error),
    /// The record cannot be put as JUnit.
    #[error("the report cannot be put as JUnit XML")]
    Junit(#[from] quick_junit::SerializeError),
}

impl FromStr for Format {
    type Err = ReportError;

    fn from_str(name: &str) -> Result<Self, ReportError> {
        Ok(match name {
            "json" => Self::Json,
            "junit" => Self::Junit,
            "markdown" => Self::Markdown,
            "html" => Self::Html,
            _ => return Err(ReportError::UnknownFormat(name.to_owned())),
        })
    }
}

/// The report in a format.
///
/// # Errors
/// When the record cannot be serialized.
pub fn render(report: &RunReport, format: Format) -> Result<String, ReportError> {
    Ok(match format {
        Format::Json => json::json(report)?,
        Format::Junit => junit::junit(report)?,
        Format::Markdown => markdown::markdown(report),
        Format::Html => html::html(report),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn every_format() {
        for (name, begins) in
            [("json", "{\n"), ("junit", "<?xml "), ("markdown", "## "), ("html", "<!doctype html>")]
        {
            let text = render(&sample::run(), name.parse().unwrap()).unwrap();
            assert!(text.starts_with(begins) && text.ends_with('\n'), "{text}");
        }
        let error = "xml".parse::<Format>().unwrap_err();
        assert!(error.to_string().starts_with("`xml` is not a report format"));
    }
}
