//! Files of one volume that get in each other's way.

use serde_json::Value;

use super::items;

/// A file and where it comes from.
struct File {
    path: String,
    source: String,
}

impl File {
    fn shown(&self) -> String {
        if self.source.is_empty() {
            return format!("{:?}", self.path);
        }
        format!("{:?} ({})", self.path, self.source)
    }

    /// Whether one of two files is the other, or would have to be a folder around it.
    fn overlaps(&self, other: &Self) -> bool {
        let within = |outer: &str, inner: &str| format!("{inner}/").starts_with(&format!("{outer}/"));
        !self.path.is_empty()
            && !other.path.is_empty()
            && (within(&self.path, &other.path) || within(&other.path, &self.path))
    }
}

/// Warns about volumes in which several files claim one path.
pub(super) fn overlaps(volumes: &Value, warnings: &mut Vec<String>) {
    for (_, volume) in items(volumes) {
        let name = volume["name"].as_str().unwrap_or_default();
        for (source, named_by, what) in [
            ("configMap", "name", "ConfigMap"),
            ("secret", "secretName", "Secret"),
            ("downwardAPI", "", "DownwardAPI"),
        ] {
            let files = files(&volume[source]["items"], "");
            report(name, &described(&volume[source], named_by, what), &files, warnings);
        }
        let mut all = Vec::new();
        for (_, source) in items(&volume["projected"]["sources"]) {
            if source.as_object().is_some_and(serde_json::Map::is_empty) {
                warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
            }
            all.extend(projected(source));
        }
        report(name, "Projected", &all, warnings);
    }
}

fn described(source: &Value, named_by: &str, what: &str) -> String {
    if named_by.is_empty() {
        return what.to_owned();
    }
    format!("{what} {:?}", source[named_by].as_str().unwrap_or_default())
}

fn files(list: &Value, source: &str) -> Vec<File> {
    items(list).map(|(_, item)| file(&item["path"], source)).collect()
}

fn file(path: &Value, source: &str) -> File {
    let path = path.as_str().unwrap_or_default().trim_end_matches('/').to_owned();
    File { path, source: source.to_owned() }
}

fn projected(source: &Value) -> Vec<File> {
    for (name, named_by, what) in
        [("configMap", "name", "ConfigMap"), ("secret", "name", "Secret"), ("downwardAPI", "", "DownwardAPI")]
    {
        if source[name]["items"].is_array() {
            return files(&source[name]["items"], &described(&source[name], named_by, what));
        }
    }
    let token = &source["serviceAccountToken"];
    if token.is_object() { vec![file(&token["path"], "ServiceAccountToken")] } else { Vec::new() }
}

fn report(volume: &str, what: &str, files: &[File], warnings: &mut Vec<String>) {
    for (index, file) in files.iter().enumerate() {
        for other in files[..index].iter().filter(|other| file.overlaps(other)) {
            warnings.push(format!(
                "volume {volume:?} ({what}): overlapping paths: {} with {}",
                file.shown(),
                other.shown()
            ));
        }
    }
}
