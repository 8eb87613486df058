//! Comments that silence findings.

use super::cases;

cases! {
    a_comment_at_the_end_of_the_line: "print(gone) # pylint: disable=undefined-variable\nprint(gone) #! E0602\n";
    an_id_is_as_good_as_a_symbol: "print(gone) # pylint: disable=E0602\n";
    several_messages_and_all: "print(gone) # pylint: disable=no-member,undefined-variable\nprint(gone) # pylint: disable=all\n";
    another_message_silences_nothing: "print(gone) # pylint: disable=no-member #! E0602\n";
    a_comment_alone_counts_to_the_end_of_its_block: "def f():\n    print(gone) #! E0602\n    # pylint: disable=undefined-variable\n    print(gone)\nprint(gone) #! E0602\n";
    a_comment_at_module_level_counts_for_the_rest: "print(gone) #! E0602\n# pylint: disable=undefined-variable\nprint(gone)\ndef f():\n    return gone\n";
    a_comment_on_a_header_counts_for_the_block: "def f(): # pylint: disable=undefined-variable\n    print(gone)\n    return gone\nprint(gone) #! E0602\n";
    a_comment_on_an_if_counts_for_its_branch: "import sys\nif sys.argv: # pylint: disable=undefined-variable\n    print(gone)\nelse:\n    print(gone) #! E0602\n";
    the_next_line_only: "# pylint: disable-next=undefined-variable\nprint(gone)\nprint(gone) #! E0602\n";
    enabling_again: "# pylint: disable=undefined-variable\nprint(gone)\n# pylint: enable=undefined-variable\nprint(gone) #! E0602\n";
    a_whole_file: "# pylint: skip-file\nprint(gone)\nimport no_such_module_at_all\n";
    text_in_a_string_is_no_comment: "print(gone, '# pylint: disable=undefined-variable') #! E0602\n";
    a_statement_over_several_lines: "print( # pylint: disable=undefined-variable\n    gone,\n    more,\n)\n";
}

#[test]
fn silenced_findings_are_counted_and_can_be_had() {
    let dir = tempfile::tempdir().unwrap();
    super::write_files(dir.path(), "print(gone) # pylint: disable=undefined-variable\n");
    let report = super::checked(dir.path());
    assert_eq!((report.findings.len(), report.n_silenced), (0, 1));
    let mut config = super::config();
    config.heed_comments = super::Heed::Nothing;
    let project =
        crate::repo::Project::open(crate::repo::ProjectConfig::new(dir.path())).unwrap().0;
    let all = super::run_check(&project.snapshot(), &[], &config).unwrap();
    assert_eq!(all.findings.len(), 1);
}
