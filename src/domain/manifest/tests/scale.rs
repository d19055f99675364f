//! Large manifests: the work grows as the file does.

use rustix::time::{ClockId, clock_gettime};

use super::Case;

/// Every task alone.
fn wide(tasks: usize) -> String {
    (0..tasks).map(|n| format!("[[task]]\nid = \"task-{n}\"\nrun = \"true\"\n")).collect()
}

/// Each after the one before.
fn chain(tasks: usize) -> String {
    let after = |n: usize| match n {
        0 => String::new(),
        n => format!("after = [\"task-{}\"]\n", n - 1),
    };
    (0..tasks)
        .map(|n| format!("[[task]]\nid = \"task-{n}\"\nrun = \"true\"\n{}", after(n)))
        .collect()
}

/// A hundred layers, each task after three of the layer before, picked by a fixed rule.
fn layers(tasks: usize) -> String {
    let width = (tasks / 100).max(1);
    let after = |n: usize| match (n / width).checked_sub(1) {
        None => String::new(),
        Some(layer) => {
            let pick = |k: usize| layer * width + (n.wrapping_mul(2_654_435_761) >> k) % width;
            format!("after = [\"task-{}\", \"task-{}\", \"task-{}\"]\n", pick(0), pick(3), pick(7))
        }
    };
    (0..tasks)
        .map(|n| format!("[[task]]\nid = \"task-{n}\"\nrun = \"true\"\n{}", after(n)))
        .collect()
}

/// Every task has something wrong that asks for a suggestion.
fn faulty(tasks: usize) -> String {
    (0..tasks)
        .map(|n| format!("[[task]]\nid = \"task-{n}\"\nrun = \"true\"\nafter = [\"tsak-{n}\"]\nneeds = [\"x{n}\"]\n"))
        .collect()
}

/// The processor time of this thread for one check, in seconds: unlike the time on the wall it does
/// not grow with what else the machine does. The least of three.
fn least_time(manifest: &str) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let once = || {
        let start = now();
        let result = Case::of(manifest).check();
        let took = now() - start;
        assert!(result.is_err() || !result.unwrap().tasks.is_empty());
        took
    };
    (0..3).map(|_| once()).fold(f64::MAX, f64::min)
}

/// Twenty times the tasks take about twenty times as long. A square would be four hundred times;
/// the bound lies far from both.
#[test]
fn time_grows_as_the_file() {
    for shape in [wide, chain, layers] {
        let (small, large) = (least_time(&shape(500)), least_time(&shape(10_000)));
        assert!(large < small * 120.0, "{small} s for 500 tasks, {large} s for 10,000");
    }
}

#[test]
#[ignore = "prints measurements: run with --release -- --ignored --nocapture"]
fn measure() {
    for tasks in [1_000, 10_000, 50_000] {
        for (name, shape) in [
            ("wide", wide as fn(usize) -> String),
            ("chain", chain),
            ("layers", layers),
            ("faulty", faulty),
        ] {
            let manifest = shape(tasks);
            let took = least_time(&manifest);
            println!("{tasks} {name}: {} KB in {took:.3} s", manifest.len() / 1024);
        }
    }
}
