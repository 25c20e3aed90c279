//! Completion scripts with a real shell, man pages with a real formatter.

use crate::support::{CommandOutput, margrave};
use std::path::Path;
use std::process::Command;

fn script(program: &str, shell: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let seen =
        CommandOutput::of(margrave(home.path()).args(["completions", shell, "--program", program]).output().unwrap());
    assert_eq!((seen.code, &*seen.stderr), (0, ""));
    seen.stdout
}

/// The completions that bash offers for a line with this script.
fn offered(program: &str, words: &[&str]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("completion.bash");
    std::fs::write(&file, script(program, "bash")).unwrap();
    let line: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let (last, before) = (line.len() - 1, line.len().saturating_sub(2));
    // The last line of the script names the completion function.
    let find = format!("$(complete -p {program} | sed -n 's/.* -F \\([^ ]*\\) .*/\\1/p')");
    let test = format!(
        "source '{}' || exit 1\nCOMP_WORDS=({})\nCOMP_CWORD={last}\n{find} {program} \"${{COMP_WORDS[{last}]}}\" \
         \"${{COMP_WORDS[{before}]}}\" || exit 1\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        file.display(),
        line.join(" "),
    );
    let output = Command::new("bash").args(["--norc", "--noprofile", "-c", &test]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_flags_and_values() {
    assert_eq!(offered("margrave", &["margrave", "deplo"]), ["deploy", "deployment", "deployments"]);
    assert_eq!(offered("margrave", &["margrave", "config", ""]).iter().filter(|word| *word == "check").count(), 1);
    assert!(offered("margrave", &["margrave", "deploy", "--skip"]).contains(&"--skip-incompatible".to_owned()));
    assert_eq!(offered("margrave", &["margrave", "status", "-o", "js"]), ["json"]);
    assert_eq!(offered("margrave-agent", &["margrave-agent", "expl"]), ["explain"]);
}

#[test]
fn prints_completion_scripts_for_other_shells() {
    for (shell, mark) in
        [("zsh", "#compdef margrave"), ("fish", "complete -c margrave"), ("powershell", "Register-ArgumentCompleter")]
    {
        let script = script("margrave", shell);
        assert!(script.contains(mark), "{shell}");
        assert!(script.contains("deployment"), "{shell}");
    }
    let home = tempfile::tempdir().unwrap();
    let seen = CommandOutput::of(margrave(home.path()).args(["completions", "csh"]).output().unwrap());
    assert_eq!(seen.code, 2);
    assert!(seen.stderr.contains("possible values: bash"), "{}", seen.stderr);
}

fn pages(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn man_pages_of_every_command_are_formatted_without_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("share/man1");
    let seen = CommandOutput::of(margrave(folder.path()).args(["man", "--out"]).arg(&out).output().unwrap());
    assert_eq!((seen.code, &*seen.stdout), (0, ""), "{}", seen.stderr);
    let names = pages(&out);
    for page in ["margrave.1", "margrave-deploy.1", "margrave-config-check.1", "margrave-agent-enroll.1"] {
        assert!(names.iter().any(|name| name == page), "{page} is not among {names:?}");
    }
    for name in &names {
        let page = out.join(name);
        let output =
            Command::new("groff").args(["-Kutf8", "-man", "-Tutf8", "-P-cbou", "-ww"]).arg(&page).output().unwrap();
        let warnings = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && warnings.is_empty(), "{name}: {warnings}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("NAME") && text.contains("SYNOPSIS"), "{name}");
    }
    // The pages are reproducible.
    let again = folder.path().join("again");
    assert_eq!(CommandOutput::of(margrave(folder.path()).args(["man", "--out"]).arg(&again).output().unwrap()).code, 0);
    for name in &names {
        assert_eq!(std::fs::read(out.join(name)).unwrap(), std::fs::read(again.join(name)).unwrap(), "{name}");
    }
}

#[test]
fn reports_a_man_page_folder_that_is_not_writable() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("file"), "").unwrap();
    let seen = CommandOutput::of(
        margrave(folder.path()).args(["man", "--out"]).arg(folder.path().join("file/man")).output().unwrap(),
    );
    assert_eq!(seen.code, 1);
    assert!(seen.stderr.starts_with("error: write man pages to `"), "{}", seen.stderr);
}
