//! Profiles in the protocol-buffer format that `go tool pprof` reads (profile.proto), written by hand: a dozen fields need no code generator.

use std::collections::BTreeMap;
use std::time::Duration;

/// A profile of processor time under construction.
pub(super) struct Profile {
    /// Nanoseconds that one sample stands for.
    period: u64,
    time: Duration,
    /// Texts by their number; the first must be empty.
    texts: BTreeMap<String, u64>,
    /// Functions by name; one location each, of the same number.
    functions: BTreeMap<String, u64>,
    samples: Vec<u8>,
}

impl Profile {
    pub(super) fn new(period: u64, time: Duration) -> Self {
        let texts = BTreeMap::from([(String::new(), 0)]);
        Self { period, time, texts, functions: BTreeMap::new(), samples: Vec::new() }
    }

    /// Adds a stack, outermost function first, that was seen `count` times.
    pub(super) fn add(&mut self, stack: &[String], count: u64) {
        let mut locations = Vec::new();
        for name in stack.iter().rev() {
            let next = self.functions.len() as u64 + 1;
            varint(&mut locations, *self.functions.entry(name.clone()).or_insert(next));
        }
        let mut values = Vec::new();
        varint(&mut values, count);
        varint(&mut values, count * self.period);
        let mut sample = Vec::new();
        bytes(&mut sample, 1, &locations);
        bytes(&mut sample, 2, &values);
        bytes(&mut self.samples, 2, &sample);
    }

    fn text(&mut self, text: &str) -> u64 {
        let next = self.texts.len() as u64;
        *self.texts.entry(text.to_owned()).or_insert(next)
    }

    fn value_type(&mut self, type_: &str, unit: &str) -> Vec<u8> {
        let mut message = Vec::new();
        let (type_, unit) = (self.text(type_), self.text(unit));
        number(&mut message, 1, type_);
        number(&mut message, 2, unit);
        message
    }

    /// The profile as bytes.
    pub(super) fn encode(mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let counts = self.value_type("samples", "count");
        let time = self.value_type("cpu", "nanoseconds");
        bytes(&mut out, 1, &counts);
        bytes(&mut out, 1, &time);
        out.append(&mut self.samples);
        for (name, id) in std::mem::take(&mut self.functions) {
            let mut line = Vec::new();
            number(&mut line, 1, id);
            let mut location = Vec::new();
            number(&mut location, 1, id);
            bytes(&mut location, 4, &line);
            bytes(&mut out, 4, &location);
            let mut function = Vec::new();
            let name = self.text(&name);
            number(&mut function, 1, id);
            number(&mut function, 2, name);
            number(&mut function, 3, name);
            bytes(&mut out, 5, &function);
        }
        let mut texts: Vec<(String, u64)> = std::mem::take(&mut self.texts).into_iter().collect();
        texts.sort_by_key(|(_, number)| *number);
        for (text, _) in texts {
            bytes(&mut out, 6, text.as_bytes());
        }
        number(&mut out, 10, u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX));
        bytes(&mut out, 11, &time);
        number(&mut out, 12, self.period);
        out
    }
}

/// Seven bits a byte, lowest first; the eighth says that more follow.
fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(u8::try_from(value & 0x7f).unwrap_or_default() | 0x80);
        value >>= 7;
    }
    out.push(u8::try_from(value).unwrap_or_default());
}

fn number(out: &mut Vec<u8>, field: u64, value: u64) {
    varint(out, field << 3);
    varint(out, value);
}

fn bytes(out: &mut Vec<u8>, field: u64, value: &[u8]) {
    varint(out, (field << 3) | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_seven_bits_at_a_time() {
        let mut out = Vec::new();
        varint(&mut out, 300);
        assert_eq!(out, [0xac, 0x02]);
    }

    #[test]
    fn a_profile_holds_its_stacks_innermost_first() {
        let mut profile = Profile::new(10, Duration::from_nanos(7));
        profile.add(&["main".to_owned(), "work".to_owned()], 3);
        let encoded = profile.encode();
        // sample { location_id: [work = 1, main = 2], value: [3, 30] }
        let sample = [0x12, 0x08, 0x0a, 0x02, 1, 2, 0x12, 0x02, 3, 30];
        assert!(encoded.windows(sample.len()).any(|window| window == sample), "{encoded:?}");
        let texts = String::from_utf8_lossy(&encoded).into_owned();
        assert!(["samples", "cpu", "nanoseconds", "main", "work"].iter().all(|text| texts.contains(text)));
    }
}
