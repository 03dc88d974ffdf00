use super::*;

fn args(flink: &str, job: &str) -> AttachArgs {
    AttachArgs { flink: vec![flink.to_owned()], job: vec![job.to_owned()], ..AttachArgs::default() }
}

#[test]
fn a_command_line_is_enough() {
    let options = Options::from_args(&args("http://127.0.0.1:8081", "a=b=50 ms")).unwrap();
    assert_eq!(options.jobs[0].name, "a=b");
    assert_eq!(options.jobs[0].wishes.target.duration(), Duration::from_millis(50));
    assert_eq!(options.policies[0].policy, "llf");
    assert_eq!(options.translator, Translator::Nice);
}

#[test]
fn who_asks_for_a_share_gets_groups() {
    let groups = |args: AttachArgs| Options::from_args(&args).unwrap().groups;
    let plain = || args("http://a", "a=1 s");
    assert_eq!(groups(plain()), Groups::WhereApart);
    assert_eq!(groups(AttachArgs { share: Some(100), ..plain() }), Groups::Always);
    assert_eq!(groups(AttachArgs { share: Some(100), no_cgroup: true, ..plain() }), Groups::Never);
}

#[test]
fn what_cannot_be_is_said() {
    let error = |args: AttachArgs| Options::from_args(&args).unwrap_err().to_string();
    assert!(error(AttachArgs::default()).contains("expected --flink URL"));
    assert!(error(args("127.0.0.1:8081", "a=1 s")).contains("as in http://127.0.0.1:8081"));
    assert!(error(args("ftp://a", "a=1 s")).contains("as in http://127.0.0.1:8081"));
    let ca = AttachArgs { ca: Some("/nonesuch".into()), ..args("https://a", "a=1 s") };
    assert!(error(ca).starts_with("--ca: cannot read /nonesuch: "));
    assert!(error(args("http://a", "alarms")).contains("'alarms=50 ms'"));
    let nice = |text: &str| AttachArgs { nice: Some(text.to_owned()), ..args("http://a", "a=1 s") };
    for text in ["-21..5", "5..-5", "3", "a..b"] {
        assert!(error(nice(text)).contains("BEST..WORST"), "{text}");
    }
    assert_eq!(Options::from_args(&nice("-20..19")).unwrap().ranges.nice, (-20, 19));
}
