//! Intentions against the real binary.

use serde_json::json;

use crate::house::House;

/// Two servers on one port, each asked for its own word: the second starts once the first is gone.
#[test]
fn orc_52_two_tasks_that_name_one_port_never_have_it_at_once() {
    let house = House::new();
    let server = |id: &str| {
        format!(
            "[[task]]\nid = \"{id}\"\nports = {{ web = 38917 }}\n\
             run = \"test ! -e lock && echo {id} > lock && sleep 0.7 && test $(cat lock) = {id} && \
             rm lock\"\n"
        )
    };
    let (code, report) =
        house.run_with(&["--jobs", "4"], &[server("a"), server("b"), server("c")].concat());
    assert_eq!(code, 0, "{report:#}");
    let other = "[[task]]\nid = \"d\"\nwrites = [\"x/**\"]\nrun = \"true\"\n\
                 [[task]]\nid = \"e\"\nwrites = [\"x/y\"]\nrun = \"true\"\n";
    house.write("p.toml", [server("a"), server("b"), other.to_owned()].concat());
    let plan = house.call(&["plan", "p.toml", "--json"]).json();
    let conflicts = json!([
        { "resource": "port/*/38917", "tasks": ["a", "b"] },
        { "resource": "file/x/**", "tasks": ["d", "e"] },
    ]);
    assert_eq!(plan["conflicts"], conflicts, "{plan:#}");
}
