use super::html;

#[track_caller]
fn check(text: &str, expected: &str) {
    assert_eq!(html(text.as_bytes()).to_string(), expected, "{text}");
}

const OUT: &str = "rel=\"noopener noreferrer nofollow\"";

#[test]
fn renders_typical_descriptions() {
    check("# Line Monitor\n\nReads the\ncounters.", "<h3>Line Monitor</h3><p>Reads the counters.</p>");
    check("- one\n- two\n  more\n\n1. first", "<ul><li>one</li><li>two more</li></ul><ol><li>first</li></ol>");
    check("**bold**, *soft* and `code`", "<p><strong>bold</strong>, <em>soft</em> and <code>code</code></p>");
    check("a\n\n---\n\nb", "<p>a</p><hr><p>b</p>");
    check("Title\n=====\n\nPart\n---\ntext", "<h3>Title</h3><h4>Part</h4><p>text</p>");
    check("one  \ntwo\\\nthree", "<p>one<br>two<br>three</p>");
    check(
        "~~gone~~ ***both*** __bold *in* it__",
        "<p><del>gone</del> <em><strong>both</strong></em> <strong>bold <em>in</em> it</strong></p>",
    );
}

#[test]
fn code_blocks_scroll_with_the_keyboard() {
    check("```yaml\na < b\n```", "<pre tabindex=\"0\"><code>a &lt; b\n</code></pre>");
    check("~~~\nnever\nends", "<pre tabindex=\"0\"><code>never\nends\n</code></pre>");
    check(
        "text\n\n    a: 1\n      b: 2\n\nmore",
        "<p>text</p><pre tabindex=\"0\"><code>a: 1\n  b: 2\n</code></pre><p>more</p>",
    );
    check("`` a`b `` and ```c``` here", "<p><code>a`b</code> and <code>c</code> here</p>");
    assert!(html(&vec![b'a'; super::BYTES_MAX + 1]).to_string().starts_with("<pre tabindex=\"0\">"));
}

#[test]
fn renders_nested_lists() {
    check("- a\n  - b\n    - c\n- d\n", "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>");
    check("1. a\n  - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>");
    check("* a\n\n* b", "<ul><li><p>a</p></li><li><p>b</p></li></ul>");
    check("- a\n\n  more\n\nend", "<ul><li><p>a</p><p>more</p></li></ul><p>end</p>");
    check("- a\n  ```\n  x\n  ```\n", "<ul><li>a<pre tabindex=\"0\"><code>x\n</code></pre></li></ul>");
}

#[test]
fn renders_quotes_and_tables() {
    check("> one\n> two\nthree\n\nend", "<blockquote><p>one two three</p></blockquote><p>end</p>");
    check("> a\n>> b", "<blockquote><p>a</p><blockquote><p>b</p></blockquote></blockquote>");
    check(
        "| Name | Size |\n|:-----|-----:|\n| `a` | 1 \\| 2 |\n| b |\n\nend",
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">Name</th>\
         <th scope=\"col\" class=\"right\">Size</th></tr></thead><tbody><tr><td><code>a</code></td><td class=\"right\">1 | 2</td></tr>\
         <tr><td>b</td><td class=\"right\"></td></tr></tbody></table></div><p>end</p>",
    );
    check("a | b\nno table", "<p>a | b no table</p>");
}

#[test]
fn escapes_raw_html() {
    check("<script>alert(1)</script>", "<p>&lt;script&gt;alert(1)&lt;/script&gt;</p>");
    check("<img src=x onerror=alert(1)>", "<p>&lt;img src=x onerror=alert(1)&gt;</p>");
    check("**<b>**", "<p><strong>&lt;b&gt;</strong></p>");
    check(
        "&lt;script&gt; &#60;b&#x3e; &copy; &nothing; & &amp;",
        "<p>&lt;script&gt; &lt;b&gt; © &amp;nothing; &amp; &amp;</p>",
    );
    check(
        "| <i> |\n|---|\n| <b onclick=x> |",
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Table\"><table><thead><tr><th scope=\"col\">&lt;i&gt;</th></tr></thead><tbody><tr><td>&lt;b onclick=x&gt;</td></tr></tbody></table></div>",
    );
}

#[test]
fn allows_only_web_links() {
    check(
        "[site](https://a.example/?x=\"1\")",
        &format!("<p><a href=\"https://a.example/?x=&quot;1&quot;\" {OUT}>site</a></p>"),
    );
    check(
        "[**b**](https://a.example/a_(b))",
        &format!("<p><a href=\"https://a.example/a_(b)\" {OUT}><strong>b</strong></a></p>"),
    );
    check(
        "see https://a.example/x.",
        &format!("<p>see <a href=\"https://a.example/x\" {OUT}>https://a.example/x</a>.</p>"),
    );
    check("<mailto:a@b.example>", &format!("<p><a href=\"mailto:a@b.example\" {OUT}>a@b.example</a></p>"));
    check("[x](javascript:alert(1))", "<p>x</p>");
    check("[x](JaVaScRiPt:alert(1)) <javascript:alert(1)>", "<p>x &lt;javascript:alert(1)&gt;</p>");
    check("![picture](https://a.example/p.png)", "<p>picture</p>");
    check("[a](data:text/html,x)", "<p>a</p>");
    check(
        "[a](https://\"onmouseover=alert(1))",
        &format!("<p><a href=\"https://&quot;onmouseover=alert(1)\" {OUT}>a</a></p>"),
    );
}

#[test]
fn keeps_unmatched_markup_as_text() {
    check("a * b ` c [d] !", "<p>a * b ` c [d] !</p>");
    check("2 * 3 * 4", "<p>2 * 3 * 4</p>");
    check("snake_case_name and **open", "<p>snake_case_name and **open</p>");
    check("\\*not\\* \\<b\\>", "<p>*not* &lt;b&gt;</p>");
    check("1986. A year", "<ol><li>A year</li></ol>");
}

/// Text made to take long: every mark opened and never closed, everything nested as deep as it goes.
#[test]
fn renders_hostile_text_in_bounded_time() {
    let big = |piece: &str| piece.repeat(super::BYTES_MAX / piece.len());
    for piece in [
        "*a ", "[", "![", "[a](", "`", "> ", "- ", "|-", "<", "&", "**a *b ", "~~a ", "_a ", "\\", "https://",
        "\n> - ", "é*",
    ] {
        let made = html(big(piece).as_bytes()).to_string();
        assert!(!made.contains("<script"), "{piece}");
    }
    let deep = (0..2_000).map(|level: usize| "  ".repeat(level.min(60)) + "- a\n").collect::<Vec<_>>().concat();
    assert!(html(deep.as_bytes()).to_string().ends_with("</ul>"));
}
