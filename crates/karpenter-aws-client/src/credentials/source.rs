//! Which source of credentials applies: the first that is configured, in the order of the AWS SDK for Go.

use std::net::IpAddr;
use std::path::PathBuf;

use http::Uri;
use karpenter_transport::Variables;

use super::{Credentials, CredentialsError};
use crate::profile::{Profiles, Settings};

/// Where credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Keys that are at hand.
    Keys(Credentials),
    /// A role taken on with a token from a file: IRSA.
    WebIdentity {
        /// The role.
        role_arn: String,
        /// Where the token is; it is rotated, so it is read every time.
        token_file: PathBuf,
        /// What the session is called; `None` takes a name of our own.
        session_name: Option<String>,
    },
    /// A role taken on with other credentials.
    Role {
        /// Who takes it on.
        base: Box<Source>,
        /// The role.
        role_arn: String,
        /// What the session is called; `None` takes a name of our own.
        session_name: Option<String>,
        /// What the role's trust policy may ask for.
        external_id: Option<String>,
    },
    /// An endpoint beside the container: EKS Pod Identity, ECS.
    Container {
        /// Its address.
        url: String,
        /// What it wants to see.
        token: Option<TokenPlace>,
    },
    /// The instance profile of the machine.
    InstanceMetadata,
}

/// Where the token for the container endpoint is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenPlace {
    /// In a file, read every time.
    File(PathBuf),
    /// In the variable itself.
    Value(String),
}

/// Longer chains of `source_profile` are mistakes.
const MAX_PROFILES: usize = 8;

impl Source {
    /// Decides which source applies: variables, web identity, profile, container, instance metadata.
    ///
    /// # Errors
    /// When a source is configured but not completely.
    pub fn find(variables: &Variables, profiles: &Profiles) -> Result<Self, CredentialsError> {
        if let Some(keys) = keys_of_variables(variables)? {
            return Ok(keys);
        }
        if let Some(token_file) = variables.get("AWS_WEB_IDENTITY_TOKEN_FILE") {
            let role_arn = variables.get("AWS_ROLE_ARN").ok_or_else(|| {
                configuration("AWS_WEB_IDENTITY_TOKEN_FILE is set and AWS_ROLE_ARN is not: set both")
            })?;
            return Ok(Self::WebIdentity {
                role_arn: role_arn.to_owned(),
                token_file: token_file.into(),
                session_name: variables.get("AWS_ROLE_SESSION_NAME").map(str::to_owned),
            });
        }
        if let Some(source) = of_profile(profiles.selected(), variables, profiles, MAX_PROFILES)? {
            return Ok(source);
        }
        Ok(of_container(variables)?.unwrap_or(Self::InstanceMetadata))
    }
}

fn configuration(message: impl Into<String>) -> CredentialsError {
    CredentialsError::Configuration(message.into())
}

fn keys_of_variables(variables: &Variables) -> Result<Option<Source>, CredentialsError> {
    match (variables.get("AWS_ACCESS_KEY_ID"), variables.get("AWS_SECRET_ACCESS_KEY")) {
        (Some(id), Some(secret)) => Ok(Some(Source::Keys(Credentials {
            session_token: variables.get("AWS_SESSION_TOKEN").map(str::to_owned),
            ..Credentials::fixed(id, secret)
        }))),
        (None, None) => Ok(None),
        _ => Err(configuration(
            "only one of AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY is set: set both or none",
        )),
    }
}

/// The source a profile describes; `None` when it describes none.
fn of_profile(
    name: &str,
    variables: &Variables,
    profiles: &Profiles,
    depth: usize,
) -> Result<Option<Source>, CredentialsError> {
    let Some(settings) = profiles.profile(name) else { return Ok(None) };
    if depth == 0 {
        return Err(configuration(format!(
            "the profile {name} is part of a circle of source_profile settings"
        )));
    }
    let setting = |key: &str| settings.get(key).map(String::as_str).filter(|value| !value.is_empty());
    let Some(role_arn) = setting("role_arn") else { return keys_of_profile(name, settings) };
    let role_arn = role_arn.to_owned();
    let session_name = setting("role_session_name").map(str::to_owned);
    if let Some(token_file) = setting("web_identity_token_file") {
        return Ok(Some(Source::WebIdentity { role_arn, token_file: token_file.into(), session_name }));
    }
    let base = match (setting("source_profile"), setting("credential_source")) {
        // A profile may name itself: its own keys take on the role.
        (Some(base), None) if base == name => keys_of_profile(name, settings)?,
        (Some(base), None) => of_profile(base, variables, profiles, depth - 1)?,
        (None, Some("Environment")) => keys_of_variables(variables)?,
        (None, Some("Ec2InstanceMetadata")) => Some(Source::InstanceMetadata),
        (None, Some("EcsContainer")) => of_container(variables)?,
        _ => {
            return Err(configuration(format!(
                "the profile {name} has role_arn and needs one of source_profile, web_identity_token_file and \
                 credential_source (Environment, Ec2InstanceMetadata or EcsContainer)"
            )));
        }
    };
    let base = base.ok_or_else(|| {
        configuration(format!("the profile {name} has role_arn, but what it takes credentials from has none"))
    })?;
    let external_id = setting("external_id").map(str::to_owned);
    Ok(Some(Source::Role { base: Box::new(base), role_arn, session_name, external_id }))
}

fn keys_of_profile(name: &str, settings: &Settings) -> Result<Option<Source>, CredentialsError> {
    let setting = |key: &str| settings.get(key).map(String::as_str).filter(|value| !value.is_empty());
    match (setting("aws_access_key_id"), setting("aws_secret_access_key")) {
        (Some(id), Some(secret)) => Ok(Some(Source::Keys(Credentials {
            session_token: setting("aws_session_token").map(str::to_owned),
            ..Credentials::fixed(id, secret)
        }))),
        (None, None) => match ["sso_session", "sso_start_url", "credential_process"]
            .into_iter()
            .find(|key| setting(key).is_some())
        {
            Some(key) => Err(configuration(format!(
                "the profile {name} uses {key}, which is not supported: export its keys, for example with `aws configure \
                 export-credentials --profile {name} --format env`"
            ))),
            None => Ok(None),
        },
        _ => Err(configuration(format!(
            "the profile {name} has only one of aws_access_key_id and aws_secret_access_key: set both"
        ))),
    }
}

/// Where ECS serves credentials.
const ECS: &str = "http://169.254.170.2";
/// Where EKS Pod Identity serves them.
const POD_IDENTITY: [&str; 2] = ["169.254.170.23", "fd00:ec2::23"];

fn of_container(variables: &Variables) -> Result<Option<Source>, CredentialsError> {
    let url = match variables.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI") {
        Some(path) => format!("{ECS}{path}"),
        None => match variables.get("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            Some(url) => url.to_owned(),
            None => return Ok(None),
        },
    };
    if !may_be_trusted(&url) {
        return Err(configuration(format!(
            "AWS_CONTAINER_CREDENTIALS_FULL_URI is {url}: only https, loopback and the addresses of ECS and EKS Pod \
             Identity may see the authorization token"
        )));
    }
    let file =
        variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE").map(|path| TokenPlace::File(path.into()));
    let value =
        variables.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(|value| TokenPlace::Value(value.to_owned()));
    Ok(Some(Source::Container { url, token: file.or(value) }))
}

fn may_be_trusted(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else { return false };
    let host = uri.host().unwrap_or("").trim_matches(['[', ']']);
    match uri.scheme_str() {
        Some("https") => true,
        Some("http") => {
            host == "localhost"
                || host == "169.254.170.2"
                || POD_IDENTITY.contains(&host)
                || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
        _ => false,
    }
}
