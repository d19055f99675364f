//! Cycles among tasks. Iterative, so that a chain of any length fits; each edge is looked at once.

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Cycles {
    /// Each from its first node (the least) along the edges; the way back to it is left out.
    pub(super) cycles: Vec<Vec<usize>>,
    /// Cycles that were seen and not written down.
    pub(super) omitted: usize,
    /// How many edges were looked at.
    pub(super) steps: usize,
}

/// Where the walk stands with a node.
#[derive(Clone, Copy, PartialEq)]
enum Mark {
    Unseen,
    /// On the path, at this depth.
    OnPath(usize),
    Done,
}

/// Walks depth-first; every edge back into the path closes a cycle of its own. Without those edges
/// there is no cycle, so mending all that are named mends the graph.
///
/// Cycles can be as many as the edges and as long as the nodes. The first is written down whole,
/// further ones while their sum stays within a small multiple of the graph's size.
pub(super) fn cycles(edges: &[Vec<usize>]) -> Cycles {
    let mut found = Cycles::default();
    let size = edges.len() + edges.iter().map(Vec::len).sum::<usize>();
    let mut budget = 4 * size;
    let mut marks = vec![Mark::Unseen; edges.len()];
    // The path, each node with the next of its edges.
    let mut path: Vec<(usize, usize)> = Vec::new();
    for start in 0..edges.len() {
        if marks[start] != Mark::Unseen {
            continue;
        }
        marks[start] = Mark::OnPath(0);
        path.push((start, 0));
        while let Some((node, next)) = path.last_mut() {
            let Some(&target) = edges[*node].get(*next) else {
                marks[*node] = Mark::Done;
                path.pop();
                continue;
            };
            *next += 1;
            found.steps += 1;
            match marks[target] {
                Mark::Done => {}
                Mark::Unseen => {
                    marks[target] = Mark::OnPath(path.len());
                    path.push((target, 0));
                }
                Mark::OnPath(depth) => {
                    let length = path.len() - depth;
                    if found.cycles.is_empty() || length <= budget {
                        budget = budget.saturating_sub(length);
                        found.cycles.push(from_least(&path[depth..]));
                    } else {
                        found.omitted += 1;
                    }
                }
            }
        }
    }
    found
}

fn from_least(path: &[(usize, usize)]) -> Vec<usize> {
    let mut cycle: Vec<usize> = path.iter().map(|(node, _)| *node).collect();
    let least = cycle.iter().enumerate().min_by_key(|(_, node)| **node).map_or(0, |(at, _)| at);
    cycle.rotate_left(least);
    cycle
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cycle_once_from_its_least_node() {
        let table: &[(&[&[usize]], &[&[usize]])] = &[
            (&[], &[]),
            (&[&[1], &[2], &[]], &[]),
            (&[&[1], &[2], &[0]], &[&[0, 1, 2]]),
            (&[&[1], &[0, 2], &[1]], &[&[0, 1], &[1, 2]]),
            (&[&[1], &[0], &[3], &[2]], &[&[0, 1], &[2, 3]]),
            // A diamond is none, and a node in front of a cycle is not in it.
            (&[&[1, 2], &[3], &[3], &[]], &[]),
            (&[&[2], &[2], &[3], &[1]], &[&[1, 2, 3]]),
        ];
        for (edges, expected) in table {
            let edges: Vec<Vec<usize>> = edges.iter().map(|targets| targets.to_vec()).collect();
            let mut found = cycles(&edges).cycles;
            found.sort();
            assert_eq!(found, expected.iter().map(|c| c.to_vec()).collect::<Vec<_>>(), "{edges:?}");
        }
    }

    #[test]
    fn every_edge_is_looked_at_once() {
        let chain: Vec<Vec<usize>> =
            (0..100_000).map(|n: usize| n.checked_sub(1).into_iter().collect()).collect();
        let ring: Vec<Vec<usize>> = (0..100_000).map(|n| vec![(n + 1) % 100_000]).collect();
        let dense: Vec<Vec<usize>> =
            (0..400).map(|n| (0..400).filter(|m| *m != n).collect()).collect();
        for (edges, named) in [(chain, 0), (ring, 1), (dense, 1)] {
            let count: usize = edges.iter().map(Vec::len).sum();
            let found = cycles(&edges);
            assert_eq!(found.steps, count);
            assert!(found.cycles.len() >= named);
            let written: usize = found.cycles.iter().map(Vec::len).sum();
            assert!(written <= 5 * (count + edges.len()), "{written}");
        }
    }
}
