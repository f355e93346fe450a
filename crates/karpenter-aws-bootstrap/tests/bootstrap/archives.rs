//! MIME archives.

use karpenter_aws_bootstrap::mime::{Archive, MimeError, NODE_CONFIG, Part, SHELL_SCRIPT};

const TWO_PARTS: &str = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"//\"\n\n--//\n\
Content-Type: text/x-shellscript; charset=\"us-ascii\"\n\n#!/bin/bash\necho one\n\n--//\n\
Content-Type: application/node.eks.aws\n\nkind: NodeConfig\n\n--//--\n";

#[test]
fn what_is_written_is_read_back() {
    let archive = Archive {
        parts: vec![
            Part::new(SHELL_SCRIPT, "#!/bin/bash\necho one\n"),
            Part::new(NODE_CONFIG, "kind: NodeConfig\n"),
        ],
    };
    assert_eq!(archive.to_string(), TWO_PARTS);
    assert_eq!(Archive::parse(TWO_PARTS).unwrap(), archive);
    for content in ["", "x", "x\n", "x\n\n", "\nx"] {
        let archive = Archive { parts: vec![Part::new(SHELL_SCRIPT, content)] };
        assert_eq!(Archive::parse(&archive.to_string()).unwrap(), archive, "{content:?}");
    }
}

#[test]
fn archives_of_others_are_read() {
    let carriage_returns = TWO_PARTS.replace('\n', "\r\n");
    let other_boundary = TWO_PARTS.replace("boundary=\"//\"", "boundary=B").replace("--//", "--B");
    let preamble = TWO_PARTS.replacen("\n\n--//", "\n\nthis is a preamble\n--//", 1);
    let blanks = format!("\n  {TWO_PARTS}").replace("  MIME", "MIME");
    let folded = TWO_PARTS.replace("multipart/mixed; ", "multipart/mixed;\n  ");
    for text in [&carriage_returns, &other_boundary, &preamble, &blanks, &folded] {
        assert!(Archive::is_archive(text));
        let archive = Archive::parse(text).unwrap();
        assert_eq!(archive.to_string(), TWO_PARTS, "{text:?}");
    }
    let extra =
        TWO_PARTS.replacen("Content-Type: text", "Content-Disposition: attachment\nContent-Type: text", 1);
    assert!(Archive::parse(&extra).unwrap().to_string().contains("Content-Disposition: attachment\n"));
}

#[test]
fn what_is_wrong_is_said() {
    let cases = [
        ("Content-Type: text/plain\n\nx", MimeError::NotMultipart("text/plain".into())),
        ("MIME-Version: 1.0\n\nx", MimeError::NotMultipart(String::new())),
        ("Content-Type: multipart/mixed\n\n--a--", MimeError::NoBoundary),
        ("Content-Type: multipart/mixed; boundary=\"\"\n\n--a--", MimeError::NoBoundary),
        ("Content-Type: multipart/mixed; boundary=a\n\n--a\n\nx\n", MimeError::Unclosed("a".into())),
        ("MIME-Version: 1.0", MimeError::Unfinished),
        ("MIME-Version: 1.0\nnonsense\n\n", MimeError::Header("nonsense".into())),
    ];
    for (text, error) in cases {
        assert_eq!(Archive::parse(text), Err(error), "{text:?}");
    }
    assert!(!Archive::is_archive("#!/bin/bash\n# Content-Type: x"));
}
