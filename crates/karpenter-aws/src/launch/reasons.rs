//! Why a launch failed, in one word for the claim's condition and a sentence for people.

use karpenter_aws_client::{ErrorKind, classify};

/// What the code and the message of an error tell; the first row that fits decides.
const REASONS: &[(&str, &[&str])] = &[
    ("SpotSLRCreationFailed", &["AuthFailure.ServiceLinkedRoleCreationNotPermitted"]),
    ("SecurityGroupSubnetVPCMismatch", &["Security group", "belong to different networks"]),
    ("InstanceProfileNameInvalid", &["Invalid IAM Instance Profile name"]),
    (
        "LaunchTemplateNotFound",
        &["InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"],
    ),
    ("UserDataSizeLimitExceeded", &["User data is limited to"]),
    ("InvalidAMIID", &["InvalidAMIID.Malformed"]),
    ("AMINotFound", &["InvalidAMIID.NotFound"]),
    ("RequestLimitExceeded", &["RequestLimitExceeded", "Throttling"]),
    ("InternalError", &["InternalError"]),
    ("FreeTierIneligible", &["not eligible for Free Tier", "free-tier"]),
    ("FleetQuotaExceeded", &["MaxFleetCountExceeded"]),
    ("AccountPendingVerification", &["PendingVerification", "pending verification"]),
    ("SpotQuotaExceeded", &["MaxSpotInstanceCountExceeded"]),
    ("VCPULimitExceeded", &["VcpuLimitExceeded"]),
    ("InsufficientFreeAddressesInSubnet", &["InsufficientFreeAddressesInSubnet"]),
];

/// The code of an account without the role that spot needs.
const SERVICE_LINKED_ROLE: &str = "AuthFailure.ServiceLinkedRoleCreationNotPermitted";

/// Whether spot cannot be had because the account lacks a role.
pub(crate) fn is_missing_spot_role(code: &str) -> bool {
    code == SERVICE_LINKED_ROLE
}

/// Whether the subnet has no free addresses.
pub(crate) fn is_subnet_full(code: &str) -> bool {
    code == "InsufficientFreeAddressesInSubnet"
}

/// Whether nothing is wrong but that it cannot be had now.
pub(crate) fn is_unfulfillable(code: &str) -> bool {
    classify(code, None) == ErrorKind::InsufficientCapacity
}

/// Whether a spread placement group has as many machines in the zone as it may have.
pub(crate) fn is_spread_limit(message: &str) -> bool {
    message.contains("spread placement group") && message.contains("limit")
}

/// One word for the condition.
pub(crate) fn reason(code: &str, message: &str) -> &'static str {
    if !is_missing_spot_role(code) && classify(code, None) == ErrorKind::Unauthorized {
        let image = message.contains("image") || message.contains("ami-");
        return if image && code == "AuthFailure" { "AMIAuthorizationFailure" } else { "Unauthorized" };
    }
    let holds = |words: &&[&str]| words.iter().any(|word| code.contains(word) || message.contains(word));
    REASONS.iter().find(|(_, words)| holds(words)).map_or("LaunchFailed", |(reason, _)| reason)
}

/// A sentence for people: what EC2 says, and what to do where we know it.
pub(crate) fn sentence(code: &str, message: &str) -> String {
    let advice = match reason(code, message) {
        "SpotSLRCreationFailed" => {
            "; create the service-linked role of spot once: aws iam create-service-linked-role --aws-service-name spot.amazonaws.com"
        }
        "Unauthorized" if message.contains("permissions boundary") => {
            "; the permissions boundary of the controller's role does not allow it"
        }
        "Unauthorized" if message.contains("service control policy") => {
            "; a service control policy of the organization does not allow it"
        }
        "Unauthorized" => "; no policy of the controller's role allows it",
        "InstanceProfileNameInvalid" => "; a new instance profile needs some seconds until EC2 knows it",
        _ => "",
    };
    format!("{code}: {}{advice}", message.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_told_from_code_and_message() {
        let cases = [
            ("AuthFailure.ServiceLinkedRoleCreationNotPermitted", "", "SpotSLRCreationFailed"),
            ("UnauthorizedOperation", "You are not authorized to perform this operation.", "Unauthorized"),
            ("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
            (
                "InvalidParameter",
                "Security group sg-1 and subnet subnet-1 belong to different networks.",
                "SecurityGroupSubnetVPCMismatch",
            ),
            (
                "InvalidParameterValue",
                "Value (x) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name",
                "InstanceProfileNameInvalid",
            ),
            ("InvalidLaunchTemplateName.NotFoundException", "", "LaunchTemplateNotFound"),
            ("InvalidUserData.Malformed", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
            ("InvalidAMIID.Malformed", "", "InvalidAMIID"),
            ("InvalidAMIID.NotFound", "", "AMINotFound"),
            ("RequestLimitExceeded", "", "RequestLimitExceeded"),
            ("InternalError", "", "InternalError"),
            (
                "InvalidParameterCombination",
                "The specified instance type is not eligible for Free Tier.",
                "FreeTierIneligible",
            ),
            ("MaxFleetCountExceeded", "", "FleetQuotaExceeded"),
            ("PendingVerification", "", "AccountPendingVerification"),
            ("MaxSpotInstanceCountExceeded", "", "SpotQuotaExceeded"),
            ("VcpuLimitExceeded", "", "VCPULimitExceeded"),
            ("InsufficientFreeAddressesInSubnet", "", "InsufficientFreeAddressesInSubnet"),
            ("Whatever", "something new", "LaunchFailed"),
        ];
        for (code, message, expected) in cases {
            assert_eq!(reason(code, message), expected, "{code} {message}");
        }
    }

    #[test]
    fn everything_that_only_cannot_be_had_now_is_known() {
        for code in [
            "InsufficientInstanceCapacity",
            "MaxSpotInstanceCountExceeded",
            "VcpuLimitExceeded",
            "UnfulfillableCapacity",
            "Unsupported",
            "InsufficientFreeAddressesInSubnet",
            "MaxFleetCountExceeded",
            "ReservationCapacityExceeded",
        ] {
            assert!(is_unfulfillable(code), "{code}");
        }
        assert!(!is_unfulfillable("UnauthorizedOperation") && !is_unfulfillable("InvalidAMIID.NotFound"));
    }
}
