//! MIME archives, as cloud-init and nodeadm read them.

/// A part of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) content_type: String,
    pub(super) body: String,
}

impl Part {
    pub(super) fn is_script(&self) -> bool {
        self.content_type.starts_with("text/x-shellscript") || self.body.trim_start().starts_with("#!")
    }
}

/// The parts of a boot script; one that is not an archive is a single part.
pub(super) fn parts(text: &str) -> Result<Vec<Part>, String> {
    let text = text.replace("\r\n", "\n");
    let start = text.trim_start();
    let is_archive = ["mime-version:", "content-type:"]
        .iter()
        .any(|name| start.get(..name.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(name)));
    if !is_archive {
        return Ok(vec![Part { content_type: String::new(), body: text.clone() }]);
    }
    let (headers, body) = start.split_once("\n\n").ok_or("the MIME archive has headers and no content")?;
    let boundary = boundary(headers).ok_or("the MIME archive names no boundary")?;
    let open = format!("--{boundary}");
    let close = format!("--{boundary}--");
    let mut parts = Vec::new();
    let mut current: Option<Vec<&str>> = None;
    let mut closed = false;
    for line in body.lines() {
        let ends = line.trim_end();
        if ends == close || ends == open {
            parts.extend(current.take().map(|lines| part(&lines)));
            closed = ends == close;
            if !closed {
                current = Some(Vec::new());
            }
        } else if let Some(lines) = &mut current {
            lines.push(line);
        }
    }
    if !closed {
        return Err("the MIME archive does not end with its closing boundary".to_owned());
    }
    Ok(parts)
}

fn boundary(headers: &str) -> Option<String> {
    let unfolded = headers.replace("\n ", " ").replace("\n\t", " ");
    let line = unfolded.lines().find(|line| line.to_lowercase().starts_with("content-type:"))?.to_owned();
    if !line.to_lowercase().contains("multipart/") {
        return None;
    }
    let (_, rest) = line.split_once("boundary=")?;
    Some(rest.split(';').next()?.trim().trim_matches('"').to_owned())
}

fn part(lines: &[&str]) -> Part {
    let blank = lines.iter().position(|line| line.trim().is_empty()).unwrap_or(lines.len());
    let header = lines[..blank].iter().find(|line| line.to_lowercase().starts_with("content-type:"));
    let content_type = header.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim());
    let body = lines.get(blank + 1..).unwrap_or_default().join("\n");
    Part { content_type: content_type.to_owned(), body }
}
