//! Whether a text says when a cron job runs: five fields of numbers, ranges and steps, or a word for common ones.

/// One field of a schedule: its bounds and the names its numbers have.
struct Field {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Field; 5] = [
    Field { least: 0, most: 59, names: &[] },
    Field { least: 0, most: 23, names: &[] },
    Field { least: 1, most: 31, names: &[] },
    Field { least: 1, most: 12, names: MONTHS },
    Field { least: 0, most: 6, names: DAYS },
];
const WORDS: &[&str] = &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks a schedule.
///
/// # Errors
/// Says what is wrong, in the words of Kubernetes.
pub(super) fn check(text: &str) -> Result<(), String> {
    let text = without_zone(text)?;
    if text.starts_with('@') {
        return word(text);
    }
    let fields: Vec<&str> = text.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    for (expressions, field) in fields.into_iter().zip(&FIELDS) {
        for expression in expressions.split(',').filter(|expression| !expression.is_empty()) {
            range(expression, field)?;
        }
    }
    Ok(())
}

/// Takes the time zone off the front of a schedule.
fn without_zone(text: &str) -> Result<&str, String> {
    let Some(rest) = text.strip_prefix("TZ=").or_else(|| text.strip_prefix("CRON_TZ=")) else {
        return Ok(text);
    };
    let (zone, schedule) = rest.split_once(' ').unwrap_or((rest, ""));
    if !zone.is_empty() && jiff::tz::TimeZone::get(zone).is_err() {
        return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
    }
    Ok(schedule.trim())
}

fn word(text: &str) -> Result<(), String> {
    match text.strip_prefix("@every ") {
        Some(duration) if duration.parse::<jiff::SignedDuration>().is_err() => {
            Err(format!("failed to parse duration {text}: time: invalid duration {duration:?}"))
        }
        None if !WORDS.contains(&text) => Err(format!("unrecognized descriptor: {text}")),
        _ => Ok(()),
    }
}

/// Checks a number, a range or everything, each with or without a step.
fn range(expression: &str, field: &Field) -> Result<(), String> {
    let mut parts = expression.split('/');
    let limits: Vec<&str> = parts.next().unwrap_or_default().split('-').collect();
    let (start, mut end) = match limits[..] {
        ["*" | "?", ..] => (field.least, field.most),
        [only] => (field.number(only)?, field.number(only)?),
        [first, last] => (field.number(first)?, field.number(last)?),
        _ => {
            field.number(limits[0])?;
            return Err(format!("too many hyphens: {expression}"));
        }
    };
    let steps: Vec<&str> = parts.collect();
    let step = match steps[..] {
        [] => 1,
        [step] => {
            if limits.len() == 1 {
                end = field.most;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {expression}")),
    };
    let (least, most) = (field.least, field.most);
    if start < least {
        return Err(format!("beginning of range ({start}) below minimum ({least}): {expression}"));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {expression}"));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {expression}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {expression}"));
    }
    Ok(())
}

impl Field {
    fn number(&self, text: &str) -> Result<u64, String> {
        match self.names.iter().position(|name| name.eq_ignore_ascii_case(text)) {
            Some(index) => Ok(self.least + index as u64),
            None => number(text),
        }
    }
}

fn number(text: &str) -> Result<u64, String> {
    match text.parse::<i64>() {
        Ok(number) => {
            u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
        }
        Err(_) => {
            Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check;

    #[test]
    fn schedules_are_fields_ranges_steps_names_and_words() {
        for text in [
            "*/5 * * * *",
            "0 22 * * 1-5",
            "0,30 8-18/2 1 JAN-mar sun",
            "@daily",
            "@every 1h30m",
            "5/15 * ? * *",
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_schedule_is_said() {
        for (text, why) in [
            ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("x * * * *", "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax"),
            ("@often", "unrecognized descriptor: @often"),
            ("TZ=Nowhere/At 0 0 * * *", "provided bad location Nowhere/At: unknown time zone Nowhere/At"),
        ] {
            assert_eq!(check(text), Err(why.to_owned()), "{text}");
        }
    }
}
