//! STS: who one is, and temporary credentials for roles; the same for EKS Pod Identity.

use bytes::Bytes;
use http::{Response, header};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use crate::answer::{Answer, Outcome};
use crate::service::unknown;
use crate::wire::refusal::Refusal;
use crate::wire::signature::{Keys, Session, hex};
use crate::wire::xml::Xml;
use crate::world::{Call, World};

const DEFAULT_SECONDS: i64 = 3600;

pub(crate) fn answer(world: &mut World, call: &Call<'_>) -> Outcome {
    match call.operation {
        "GetCallerIdentity" => {
            let mut xml = Xml::new();
            let user = call.caller.rsplit('/').next().unwrap_or("");
            xml.leaf("Arn", &call.caller).leaf("UserId", user).leaf("Account", &world.description.account);
            Ok(xml.into())
        }
        "AssumeRole" => assume(world, call),
        "AssumeRoleWithWebIdentity" => {
            let token = call.form.text("WebIdentityToken").unwrap_or("");
            if token.is_empty() {
                return Err(Refusal::new(
                    "InvalidIdentityToken",
                    "No OpenIDConnect provider found: the token is empty.",
                ));
            }
            assume(world, call)
        }
        other => Err(unknown(other)),
    }
}

/// Fresh keys of a role.
pub(crate) struct Issued {
    pub(crate) access_key_id: String,
    pub(crate) secret: String,
    pub(crate) token: String,
    pub(crate) expiration: Timestamp,
}

impl World {
    /// Issues keys for `role`, whose last part of the name is enough.
    pub(crate) fn issue(&mut self, role: &str, session: &str, seconds: i64, now: Timestamp) -> Issued {
        let issued = Issued {
            access_key_id: self.letters("ASIA", 20),
            secret: hex(&[self.environment.entropy(), self.environment.entropy()].concat()),
            token: format!("token-{}", hex(&self.environment.entropy())),
            expiration: now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX),
        };
        let name = role.rsplit('/').next().unwrap_or(role);
        let arn = self.description.arn("sts", &format!("assumed-role/{name}/{session}"));
        let kept = Session { token: issued.token.clone(), expiration: issued.expiration };
        let keys = Keys { secret: issued.secret.clone(), session: Some(kept), arn };
        self.keys.insert(issued.access_key_id.clone(), keys);
        issued
    }
}

fn assume(world: &mut World, call: &Call<'_>) -> Outcome {
    let role = call.form.text("RoleArn").ok_or_else(|| Refusal::missing("RoleArn"))?;
    let session = call.form.text("RoleSessionName").ok_or_else(|| Refusal::missing("RoleSessionName"))?;
    if !role.contains(":role/") {
        return Err(Refusal::new("ValidationError", format!("{role} is invalid")));
    }
    let seconds = call.form.number("DurationSeconds").unwrap_or(DEFAULT_SECONDS);
    let issued = world.issue(role, session, seconds, call.now);
    let name = role.rsplit('/').next().unwrap_or(role);
    let mut xml = Xml::new();
    xml.node("Credentials", |xml| {
        xml.leaf("AccessKeyId", &issued.access_key_id)
            .leaf("SecretAccessKey", &issued.secret)
            .leaf("SessionToken", &issued.token)
            .leaf("Expiration", issued.expiration);
    });
    xml.node("AssumedRoleUser", |xml| {
        xml.leaf("AssumedRoleId", format!("AROASIMULATED:{session}"))
            .leaf("Arn", world.description.arn("sts", &format!("assumed-role/{name}/{session}")));
    });
    if call.operation == "AssumeRoleWithWebIdentity" {
        xml.leaf("SubjectFromWebIdentityToken", "system:serviceaccount:kube-system:karpenter");
    }
    Ok(xml.into())
}

/// What the agent beside a pod hands out.
pub(crate) fn pod_identity(world: &mut World, call: &Call<'_>) -> Outcome {
    if !call.request.headers().contains_key(header::AUTHORIZATION) {
        return Err(
            Refusal::new("AccessDeniedException", "The request has no authorization token.").status(400)
        );
    }
    let issued = world.issue("role/karpenter", "eks-local-karpenter", DEFAULT_SECONDS, call.now);
    let body = json!({
        "AccessKeyId": issued.access_key_id,
        "SecretAccessKey": issued.secret,
        "Token": issued.token,
        "AccountId": world.description.account,
        "Expiration": issued.expiration.to_string(),
    });
    let response = Response::builder().header(header::CONTENT_TYPE, "application/json");
    let response = response.body(Bytes::from(body.to_string())).expect("the header is plain text");
    Ok(Answer::Raw(response))
}
