//! The shared files `~/.aws/config` and `~/.aws/credentials`, and the profile of them that is in use.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use karpenter_transport::Variables;

/// The settings of one profile.
pub type Settings = BTreeMap<String, String>;

/// All profiles of both files, and which one is in use.
#[derive(Clone, Debug, Default)]
pub struct Profiles {
    selected: String,
    /// Whether the user named the profile.
    named: bool,
    by_name: BTreeMap<String, Settings>,
}

/// A shared file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// The file is there and cannot be read.
    #[error("cannot read {path}: {reason}")]
    Unreadable {
        /// The file.
        path: String,
        /// Why not.
        reason: String,
    },
    /// A line is neither a section nor a setting.
    #[error("{path}, line {line}: expected [section] or name = value")]
    Malformed {
        /// The file.
        path: String,
        /// The line, counted from one.
        line: usize,
    },
    /// The profile the user named is in neither file.
    #[error(
        "the profile {0}, which AWS_PROFILE names, is neither in the config file nor in the credentials file"
    )]
    Unknown(String),
}

impl Profiles {
    /// Reads the files the variables point to; a file that is not there is empty.
    ///
    /// # Errors
    /// When a file cannot be read or is malformed, or when the user named a profile that does not exist.
    pub fn load(variables: &Variables) -> Result<Self, ProfileError> {
        let named = variables.get("AWS_PROFILE").or_else(|| variables.get("AWS_DEFAULT_PROFILE"));
        let mut profiles = Self {
            selected: named.unwrap_or("default").to_owned(),
            named: named.is_some(),
            ..Self::default()
        };
        if let Some(path) = place(variables, "AWS_CONFIG_FILE", "config") {
            profiles.read(&path, SharedFile::Config)?;
        }
        // Keys in the credentials file win over the same keys in the config file.
        if let Some(path) = place(variables, "AWS_SHARED_CREDENTIALS_FILE", "credentials") {
            profiles.read(&path, SharedFile::Credentials)?;
        }
        if profiles.named && !profiles.by_name.contains_key(&profiles.selected) {
            return Err(ProfileError::Unknown(profiles.selected));
        }
        Ok(profiles)
    }

    fn read(&mut self, path: &Path, file: SharedFile) -> Result<(), ProfileError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => {
                return Err(ProfileError::Unreadable {
                    path: path.display().to_string(),
                    reason: error.to_string(),
                });
            }
        };
        let mut section: Option<String> = None;
        for (index, raw) in text.lines().enumerate() {
            let line = raw.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            // An indented line belongs to a nested setting such as `s3 =`; none of those concerns us.
            if raw.starts_with([' ', '\t']) && section.is_some() {
                continue;
            }
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
                let profile = file.profile(name.trim());
                section = Some(profile.map_or_else(String::new, str::to_owned));
                if let Some(profile) = profile {
                    self.by_name.entry(profile.to_owned()).or_default();
                }
            } else if let (Some(section), Some((name, value))) = (&section, line.split_once('=')) {
                if !section.is_empty() {
                    let settings = self.by_name.entry(section.clone()).or_default();
                    settings.insert(name.trim().to_lowercase(), value.trim().to_owned());
                }
            } else {
                return Err(ProfileError::Malformed { path: path.display().to_string(), line: index + 1 });
            }
        }
        Ok(())
    }

    /// The name of the profile in use.
    pub fn selected(&self) -> &str {
        &self.selected
    }

    /// The settings of the profile called `name`.
    pub fn profile(&self, name: &str) -> Option<&Settings> {
        self.by_name.get(name)
    }

    /// A setting of the profile in use.
    pub fn setting(&self, name: &str) -> Option<&str> {
        self.profile(&self.selected)?.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }
}

/// The two files name their sections differently.
#[derive(Clone, Copy)]
enum SharedFile {
    Config,
    Credentials,
}

impl SharedFile {
    /// The profile a section belongs to; the config file has other sections too.
    fn profile(self, section: &str) -> Option<&str> {
        match self {
            Self::Credentials => Some(section),
            Self::Config if section == "default" => Some(section),
            Self::Config => section.strip_prefix("profile ").map(str::trim),
        }
    }
}

/// Where a shared file is: where the variable says, else below the home folder.
fn place(variables: &Variables, variable: &str, name: &str) -> Option<PathBuf> {
    match variables.get(variable) {
        Some(path) => Some(PathBuf::from(path)),
        None => Some(Path::new(variables.get("HOME")?).join(".aws").join(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(config: &str, credentials: &str, profile: &str) -> Result<Profiles, ProfileError> {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        Profiles::load(&Variables::from([
            ("AWS_CONFIG_FILE", file("config", config)),
            ("AWS_SHARED_CREDENTIALS_FILE", file("credentials", credentials)),
            ("AWS_PROFILE", profile.to_owned()),
        ]))
    }

    #[test]
    fn both_files_are_merged_and_the_credentials_file_wins() {
        let profiles = load(
            "# comment\n[default]\nregion = eu-west-1\n[profile dev]\nregion=us-west-2\naws_access_key_id = old\ns3 =\n  max = 1\n[sso-session x]\na = b\n",
            "[dev]\naws_access_key_id = new\n; comment\naws_secret_access_key = a=b\n",
            "dev",
        )
        .unwrap();
        assert_eq!(profiles.setting("region"), Some("us-west-2"));
        assert_eq!(profiles.setting("aws_access_key_id"), Some("new"));
        assert_eq!(profiles.setting("aws_secret_access_key"), Some("a=b"));
        assert_eq!(profiles.profile("default").unwrap()["region"], "eu-west-1");
        assert!(profiles.profile("x").is_none());
    }

    #[test]
    fn missing_files_are_empty_and_the_default_profile_may_be_missing() {
        let profiles = Profiles::load(&Variables::from([("HOME", "/does/not/exist")])).unwrap();
        assert_eq!((profiles.selected(), profiles.setting("region")), ("default", None));
    }

    #[test]
    fn mistakes_are_named() {
        assert!(
            load("", "", "gone")
                .unwrap_err()
                .to_string()
                .starts_with("the profile gone, which AWS_PROFILE names")
        );
        let error = load("[default]\nnonsense\n", "", "").unwrap_err().to_string();
        assert!(error.ends_with("config, line 2: expected [section] or name = value"), "{error}");
    }
}
