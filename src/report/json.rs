//! The report as a JSON document, with the names of design, section 7.2.

use super::record::RunReport;

/// The document, indented, with a line end.
pub(super) fn json(report: &RunReport) -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(report)?;
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn names_and_round_trip() {
        let report = sample::run();
        let text = json(&report).unwrap();
        assert_eq!(serde_json::from_str::<RunReport>(&text).unwrap(), report);
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let keys = |value: &serde_json::Value| {
            value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            keys(&value),
            "board counts duration_ms escalations exit_code outcome run_id schema_version \
             started_at tasks workspace_id"
        );
        let task = &value["tasks"][1];
        assert_eq!(
            keys(task),
            "agent artifacts attempts backoffs class commands conflicts duration_ms id needs \
             published reason session_id started_at state waited_on"
        );
        assert_eq!(
            keys(&task["commands"][0]),
            "awaiting children command command_id cwd duration_ms encoding exit_code notes order \
             output parsed pipe_status reason session_id started_at state stderr stdout touched \
             truncated"
        );
        assert_eq!(task["reason"], serde_json::json!({"kind": "exit", "code": 2}));
        assert_eq!(value["counts"], serde_json::json!({"succeeded": 1, "failed": 1, "skipped": 1}));
        assert_eq!(value["started_at"], "2025-11-30T23:00:00.000Z");
    }
}
