//! Which source of credentials applies: the first that is configured, in the order of the official libraries.

use std::path::PathBuf;

use karpenter_transport::Variables;
use serde::Deserialize;

use super::{Credentials, CredentialsError};

/// Where RRSA puts the token by default.
const TOKEN_FILE: &str = "/var/run/secrets/ack.alibabacloud.com/rrsa-tokens/token";
const SESSION: &str = "karpenter-controller";

/// Where credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Keys that are at hand.
    Keys(Credentials),
    /// A role taken on with a token from a file: RRSA.
    Oidc {
        /// The role.
        role_arn: String,
        /// Who vouches for the token.
        provider_arn: String,
        /// Where the token is; it is rotated, so it is read every time.
        token_file: PathBuf,
        /// What the session is called in the audit trail.
        session_name: String,
    },
    /// The RAM role of the machine; `None` takes the one it has.
    InstanceMetadata {
        /// The role's name.
        role: Option<String>,
    },
}

/// One entry of the command line's file, `~/.aliyun/config.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Profile {
    /// Its name.
    pub name: String,
    /// How it signs: `AK`, `StsToken`, `EcsRamRole` and others.
    pub mode: String,
    /// Names the keys.
    pub access_key_id: String,
    /// The secret.
    pub access_key_secret: String,
    /// Marks temporary keys.
    pub sts_token: String,
    /// The role of the machine.
    pub ram_role_name: String,
    /// The region it works in.
    pub region_id: String,
}

/// The command line's file.
#[derive(Default, Deserialize)]
#[serde(default)]
struct ProfileFile {
    current: String,
    profiles: Vec<Profile>,
}

impl Profile {
    /// The profile the user has chosen, if there is a file at all.
    ///
    /// # Errors
    /// When the file is there and cannot be understood, or does not have the profile.
    pub fn load(variables: &Variables) -> Result<Option<Self>, CredentialsError> {
        if variables.is_true("ALIBABA_CLOUD_CLI_PROFILE_DISABLED") {
            return Ok(None);
        }
        let Some(home) = variables.get("HOME") else { return Ok(None) };
        let path = PathBuf::from(home).join(".aliyun/config.json");
        let Ok(text) = std::fs::read_to_string(&path) else { return Ok(None) };
        Self::choose(&text, variables.get("ALIBABA_CLOUD_PROFILE"))
            .map(Some)
            .map_err(|reason| CredentialsError::Configuration(format!("{}: {reason}", path.display())))
    }

    fn choose(text: &str, wanted: Option<&str>) -> Result<Self, String> {
        let file: ProfileFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let wanted = wanted.unwrap_or(if file.current.is_empty() { "default" } else { &file.current });
        file.profiles
            .into_iter()
            .find(|profile| profile.name == wanted)
            .ok_or_else(|| format!("it has no profile {wanted}: choose another with ALIBABA_CLOUD_PROFILE"))
    }

    fn source(&self) -> Result<Source, CredentialsError> {
        let given = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        match self.mode.as_str() {
            "" | "AK" | "StsToken" => Ok(Source::Keys(Credentials {
                security_token: given(&self.sts_token),
                ..Credentials::fixed(&self.access_key_id, &self.access_key_secret)
            })),
            "EcsRamRole" => Ok(Source::InstanceMetadata { role: given(&self.ram_role_name) }),
            other => Err(CredentialsError::Configuration(format!(
                "the profile {} has mode {other}, which is not supported: use AK, StsToken or EcsRamRole, or variables",
                self.name
            ))),
        }
    }
}

impl Source {
    /// Decides which source applies: keys in variables, RRSA, the command line's profile, the machine's role.
    ///
    /// # Errors
    /// When a source is configured but not completely.
    pub fn find(variables: &Variables, profile: Option<&Profile>) -> Result<Self, CredentialsError> {
        let incomplete = |text: &str| Err(CredentialsError::Configuration(text.to_owned()));
        match (variables.get("ALIBABA_CLOUD_ACCESS_KEY_ID"), variables.get("ALIBABA_CLOUD_ACCESS_KEY_SECRET"))
        {
            (Some(id), Some(secret)) => {
                return Ok(Self::Keys(Credentials {
                    security_token: variables.get("ALIBABA_CLOUD_SECURITY_TOKEN").map(str::to_owned),
                    ..Credentials::fixed(id, secret)
                }));
            }
            (None, None) => {}
            _ => {
                return incomplete(
                    "only one of ALIBABA_CLOUD_ACCESS_KEY_ID and ALIBABA_CLOUD_ACCESS_KEY_SECRET is set: set both or none",
                );
            }
        }
        match (variables.get("ALIBABA_CLOUD_ROLE_ARN"), variables.get("ALIBABA_CLOUD_OIDC_PROVIDER_ARN")) {
            (Some(role), Some(provider)) => {
                return Ok(Self::Oidc {
                    role_arn: role.to_owned(),
                    provider_arn: provider.to_owned(),
                    token_file: variables.get("ALIBABA_CLOUD_OIDC_TOKEN_FILE").unwrap_or(TOKEN_FILE).into(),
                    session_name: variables
                        .get("ALIBABA_CLOUD_ROLE_SESSION_NAME")
                        .unwrap_or(SESSION)
                        .to_owned(),
                });
            }
            (None, None) => {}
            _ => {
                return incomplete(
                    "only one of ALIBABA_CLOUD_ROLE_ARN and ALIBABA_CLOUD_OIDC_PROVIDER_ARN is set: RRSA needs both",
                );
            }
        }
        if let Some(profile) = profile {
            return profile.source();
        }
        Ok(Self::InstanceMetadata { role: variables.get("ALIBABA_CLOUD_ECS_METADATA").map(str::to_owned) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_source_that_is_configured_applies() {
        let keys = ("ALIBABA_CLOUD_ACCESS_KEY_ID", "id");
        let secret = ("ALIBABA_CLOUD_ACCESS_KEY_SECRET", "secret");
        let role = ("ALIBABA_CLOUD_ROLE_ARN", "acs:ram::1:role/karpenter");
        let provider = ("ALIBABA_CLOUD_OIDC_PROVIDER_ARN", "acs:ram::1:oidc-provider/ack");
        let find = |variables: Variables| Source::find(&variables, None);
        assert_eq!(
            find([keys, secret, role, provider].into()).unwrap(),
            Source::Keys(Credentials::fixed("id", "secret"))
        );
        let Source::Oidc { token_file, session_name, .. } = find([role, provider].into()).unwrap() else {
            panic!("RRSA is configured")
        };
        assert_eq!((token_file.to_str().unwrap(), session_name.as_str()), (TOKEN_FILE, SESSION));
        assert_eq!(
            find([("ALIBABA_CLOUD_ECS_METADATA", "node-role")].into()).unwrap(),
            Source::InstanceMetadata { role: Some("node-role".into()) }
        );
    }

    #[test]
    fn half_a_configuration_is_named() {
        let error = Source::find(&[("ALIBABA_CLOUD_ACCESS_KEY_ID", "id")].into(), None).unwrap_err();
        assert!(error.to_string().contains("set both or none"), "{error}");
        let error = Source::find(&[("ALIBABA_CLOUD_ROLE_ARN", "arn")].into(), None).unwrap_err();
        assert!(error.to_string().contains("RRSA needs both"), "{error}");
    }

    #[test]
    fn profiles_of_the_command_line_are_read() {
        let text = r#"{"current": "work", "profiles": [
            {"name": "default", "mode": "AK", "access_key_id": "a", "access_key_secret": "b", "region_id": "cn-beijing"},
            {"name": "work", "mode": "EcsRamRole", "ram_role_name": "r"},
            {"name": "sso", "mode": "CloudSSO"}]}"#;
        let source = |wanted| Profile::choose(text, wanted).unwrap().source();
        assert_eq!(source(None).unwrap(), Source::InstanceMetadata { role: Some("r".into()) });
        assert_eq!(source(Some("default")).unwrap(), Source::Keys(Credentials::fixed("a", "b")));
        assert!(source(Some("sso")).unwrap_err().to_string().contains("CloudSSO"));
        assert!(Profile::choose(text, Some("gone")).unwrap_err().contains("no profile gone"));
    }
}
