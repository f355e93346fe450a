//! IAM: instance profiles and the roles in them. STS: who we are.
#![expect(missing_docs, reason = "fields have AWS's names and meaning")]

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::client::Client;
use crate::error::Error;
use crate::query::{self, PagedOperation, QueryOperation};

/// IAM.
pub struct Iam<'a> {
    client: &'a Client,
}

/// STS, besides what it does for credentials.
pub struct Sts<'a> {
    client: &'a Client,
}

impl Client {
    /// IAM.
    pub fn iam(&self) -> Iam<'_> {
        Iam { client: self }
    }

    /// STS.
    pub fn sts(&self) -> Sts<'_> {
        Sts { client: self }
    }
}

impl Iam<'_> {
    /// Sends a request.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn call<O: QueryOperation>(&self, request: &O) -> Result<O::Answer, Error> {
        self.client.query(query::IAM, request, None, None).await
    }

    /// Sends a request for each page and gathers what they hold.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn list<O: PagedOperation>(&self, request: &O) -> Result<Vec<O::Item>, Error> {
        self.client.query_pages(query::IAM, request).await
    }
}

impl Sts<'_> {
    /// Whose credentials we use.
    ///
    /// # Errors
    /// What AWS says, or what happened on the way.
    pub async fn caller_identity(&self) -> Result<CallerIdentity, Error> {
        self.client.query(query::STS, &GetCallerIdentity {}, None, None).await
    }
}

#[derive(Serialize)]
struct GetCallerIdentity {}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct CallerIdentity {
    pub account: String,
    pub arn: String,
    pub user_id: String,
}

impl QueryOperation for GetCallerIdentity {
    const NAME: &'static str = "GetCallerIdentity";
    type Answer = CallerIdentity;
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct IamTag {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceProfile {
    pub instance_profile_name: String,
    pub instance_profile_id: String,
    pub arn: String,
    pub path: String,
    pub create_date: Option<Timestamp>,
    pub roles: Vec<Role>,
    pub tags: Vec<IamTagDescription>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct Role {
    pub role_name: String,
    pub arn: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct IamTagDescription {
    pub key: String,
    pub value: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct InstanceProfileAnswer {
    pub instance_profile: InstanceProfile,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GetInstanceProfile {
    pub instance_profile_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct CreateInstanceProfile {
    pub instance_profile_name: String,
    pub path: Option<String>,
    pub tags: Vec<IamTag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct DeleteInstanceProfile {
    pub instance_profile_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct TagInstanceProfile {
    pub instance_profile_name: String,
    pub tags: Vec<IamTag>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct AddRoleToInstanceProfile {
    pub instance_profile_name: String,
    pub role_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct RemoveRoleFromInstanceProfile {
    pub instance_profile_name: String,
    pub role_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct ListInstanceProfiles {
    pub path_prefix: Option<String>,
    pub max_items: Option<u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct ListInstanceProfilesAnswer {
    pub instance_profiles: Vec<InstanceProfile>,
    pub is_truncated: bool,
    pub marker: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "PascalCase")]
pub struct GetRole {
    pub role_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase", default)]
pub struct GetRoleAnswer {
    pub role: Role,
}

/// An answer that says no more than that it worked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct IamDone {}

macro_rules! operations {
    ($($request:ident -> $answer:ident),* $(,)?) => {$(
        impl QueryOperation for $request {
            const NAME: &'static str = stringify!($request);
            type Answer = $answer;
        }
    )*};
}

operations! {
    GetInstanceProfile -> InstanceProfileAnswer,
    CreateInstanceProfile -> InstanceProfileAnswer,
    DeleteInstanceProfile -> IamDone,
    TagInstanceProfile -> IamDone,
    AddRoleToInstanceProfile -> IamDone,
    RemoveRoleFromInstanceProfile -> IamDone,
    ListInstanceProfiles -> ListInstanceProfilesAnswer,
    GetRole -> GetRoleAnswer,
}

impl PagedOperation for ListInstanceProfiles {
    type Item = InstanceProfile;
    const NEXT: &'static str = "Marker";
    fn page(answer: ListInstanceProfilesAnswer) -> (Vec<InstanceProfile>, Option<String>) {
        (answer.instance_profiles, answer.marker.filter(|_| answer.is_truncated))
    }
}
