//! What must hold for the table as a whole.

use std::collections::{BTreeMap, HashSet};

use super::arguments::MOST_READS;
use super::row::{Case, Line, Makes, Recipe, Row, Step};
use super::schema::{Count, Schema};
use super::words::{GradientSlot, Guard, Part, Read, Slot};
use super::{every, without, Entry, FAMILIES};

fn rows() -> impl Iterator<Item = &'static Row> {
    FAMILIES.iter().copied().flatten()
}

fn cases(row: &'static Row) -> &'static [Case] {
    match &row.recipe {
        Recipe::One(case) => std::slice::from_ref(case),
        Recipe::Pick(cases) => cases,
        Recipe::Rule(_) => &[],
    }
}

fn steps(case: &'static Case) -> &'static [Step] {
    match &case.makes {
        Makes::One(step) => std::slice::from_ref(step),
        Makes::Several(steps) => steps,
        Makes::Nothing | Makes::HandsOn | Makes::Refuses(..) => &[],
    }
}

/// The slots of a line, those of a loop once, with the size of the groups that it goes in.
fn slots(line: Line) -> Vec<(Slot, Option<u32>)> {
    match line {
        Line::Slots(slots) => slots.iter().map(|slot| (*slot, None)).collect(),
        Line::Parts(parts) => {
            let once = |part: &Part| match *part {
                Part::Once(slot) => vec![(slot, None)],
                Part::Each(group, slots) => slots.iter().map(|slot| (*slot, Some(group))).collect(),
                Part::EachOutput(slot) => vec![(slot, Some(1))],
            };
            parts.iter().flat_map(once).collect()
        }
    }
}

fn most(count: Count) -> u32 {
    match count {
        Count::Between(_, most) => most,
        Count::OneOf(counts) => counts.iter().copied().max().expect("a count"),
        Count::Times(_) => u32::MAX,
    }
}

fn inside(slot: Slot, group: Option<u32>, schema: &Schema) -> bool {
    match slot {
        Slot::I(k) | Slot::Shape(k) | Slot::GI(k) | Slot::GiIndices(k) | Slot::GiValues(k) => {
            k < group.unwrap_or(most(schema.inputs))
        }
        Slot::O(k) | Slot::GO(k) | Slot::GoIndices(k) | Slot::GoValues(k) => {
            k < group.unwrap_or(most(schema.outputs))
        }
        Slot::Local(k) => k == 0,
    }
}

#[test]
fn names_are_unique() {
    let mut seen = HashSet::new();
    for (name, _) in every() {
        assert!(seen.insert(name), "{name} stands there twice");
    }
}

#[test]
fn totals_are_those_of_the_reference() {
    let mut totals = BTreeMap::new();
    for (name, _) in every() {
        *totals.entry(super::has_gradient(name.as_bytes())).or_insert(0) += 1;
    }
    let expected = [("maker", 247 + 3), ("none", 154), ("forbidden", 175), ("unimplemented", 5)];
    assert_eq!(totals, expected.into_iter().collect());
}

#[test]
fn slots_fit_the_schema() {
    for row in rows() {
        let Some(schema) = &row.schema else { continue };
        for case in cases(row) {
            let mut all: Vec<_> = steps(case)
                .iter()
                .flat_map(|step| slots(step.reads).into_iter().chain(slots(step.writes)))
                .collect();
            match case.gives {
                Some((_, GradientSlot::Dense(slot))) => all.push((slot, None)),
                Some((_, GradientSlot::Sparse(indices, values))) => {
                    all.extend([(indices, None), (values, None)]);
                }
                Some((_, GradientSlot::None)) | None => {}
            }
            for (slot, group) in all {
                assert!(inside(slot, group, schema), "{}: {slot:?}", row.name);
            }
            for guard in case.when {
                let fits = match *guard {
                    Guard::Inputs(n) | Guard::InputsFrom(n) => n <= most(schema.inputs),
                    Guard::Outputs(n) | Guard::OutputsFrom(n) => n <= most(schema.outputs),
                    Guard::NoGradient(k) | Guard::DenseGradient(k) => k < most(schema.outputs),
                    _ => true,
                };
                assert!(fits, "{}: {guard:?}", row.name);
            }
        }
    }
}

#[test]
fn gradients_are_written_once() {
    for row in rows() {
        for case in cases(row) {
            let mut unread = HashSet::new();
            for step in steps(case) {
                for (slot, _) in slots(step.reads) {
                    unread.remove(&format!("{slot:?}"));
                }
                for (slot, _) in slots(step.writes) {
                    let is_new = unread.insert(format!("{slot:?}"));
                    assert!(is_new, "{}: {slot:?} is written twice", row.name);
                }
            }
        }
    }
}

#[test]
fn some_case_always_holds() {
    for row in rows() {
        if let Recipe::Pick(cases) = &row.recipe {
            let open = cases.iter().position(|case| case.when.is_empty());
            assert_eq!(open, Some(cases.len() - 1), "{}", row.name);
        }
    }
}

#[test]
fn guards_ask_for_what_is_read() {
    for row in rows() {
        assert!(row.reads.len() <= MOST_READS, "{}", row.name);
        let mut asked = HashSet::new();
        for guard in cases(row).iter().flat_map(|case| case.when) {
            if let Guard::Set(name)
            | Guard::Unset(name)
            | Guard::Above(name, _)
            | Guard::Given(name) = guard
            {
                asked.insert(*name);
            }
        }
        let read: HashSet<_> = row.reads.iter().map(Read::name).collect();
        assert_eq!(asked, read, "{}", row.name);
    }
}

#[test]
fn helper_blobs_are_used_where_there_are_any() {
    for row in rows() {
        let lines = cases(row).iter().flat_map(steps).flat_map(|step| [step.reads, step.writes]);
        let used = lines.flat_map(slots).any(|(slot, _)| slot == Slot::Local(0));
        assert_eq!(used, row.local.is_some(), "{}", row.name);
    }
}

#[test]
fn every_operator_has_a_type() {
    for row in rows() {
        for step in cases(row).iter().flat_map(steps) {
            assert!(!step.op_type.unwrap_or(row.gradient).is_empty(), "{}", row.name);
        }
    }
}

#[test]
fn every_row_has_a_golden_case() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/ops.jsonl");
    let Ok(golden) = std::fs::read_to_string(path) else { return };
    for row in rows().filter(|row| row.schema.is_some()) {
        let operator = format!(r#"type: \"{}\""#, row.name);
        assert!(golden.contains(&operator), "{} has no case", row.name);
    }
}

#[test]
fn lists_of_names_are_sorted() {
    let silent: Vec<_> = without::SILENT.iter().map(|row| row.name).collect();
    for names in [&silent[..], without::FORBIDDEN, without::UNIMPLEMENTED] {
        let unsorted = names.windows(2).find(|pair| pair[0] >= pair[1]);
        assert_eq!(unsorted, None);
    }
    assert!(every().zip(every().skip(1)).all(|((one, _), (next, _))| one < next));
}

#[test]
fn every_type_can_be_described() {
    for (name, entry) in every() {
        let text = super::describe(name.as_bytes());
        assert!(text.starts_with(name) && text.lines().count() > 1, "{text}");
        if let Entry::Maker(row) = entry {
            assert_eq!(text.lines().count() - 1, cases(row).len().max(1), "{text}");
        }
    }
}
