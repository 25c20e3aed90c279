//! Access tokens for people and programs.

use crate::app::access;
use crate::app::error::AppError;
use crate::ui::confirm::{Confirmation, confirm};
use crate::ui::form::Posted;
use crate::ui::markup::Markup;
use crate::ui::routes::heads::{Compare, Heads, sort_rows};
use crate::ui::routes::query::Params;
use crate::ui::visit::{PageResult, Section, Shell, Visit, go, pages};
use crate::ui::words;
use askama::Template;
use http::StatusCode;
use margrave_api::access::{CreateToken, Token, TokenState};

const DAY_SECONDS: u64 = 86_400;

#[derive(Template)]
#[template(path = "settings/tokens.html", blocks = ["live", "nav"])]
struct TokensPage {
    shell: Shell,
    tab: &'static str,
    heads: Heads,
    tokens: Vec<TokenRow>,
    made: Option<Token>,
    name: String,
    days: String,
    wrong: Option<String>,
}
pages!(TokensPage);

/// The state of a token, whether it is active, whether the visitor signed in with it, and the token.
type TokenRow = (Markup, bool, bool, Token);

const COLUMNS: [(&str, Compare<TokenRow>); 4] = [
    ("name", |one, other| one.3.name.cmp(&other.3.name)),
    // Active ones first.
    ("state", |one, other| other.1.cmp(&one.1)),
    ("created", |one, other| one.3.created_at.cmp(&other.3.created_at)),
    ("expires", |one, other| one.3.expires_at.cmp(&other.3.expires_at)),
];

pub(in crate::ui) async fn show(visit: Visit, params: Params) -> PageResult {
    if let Some(id) = params.get("revoke") {
        return ask_to_revoke(&visit, &id).await;
    }
    let mut page = page(&visit, None, None, ("", "")).await?;
    let sort = params.text("sort");
    sort_rows(&mut page.tokens, &sort, &COLUMNS);
    page.heads = Heads::new("/settings/tokens", &[], &sort);
    visit.show(&page)
}

async fn page(
    visit: &Visit,
    made: Option<Token>,
    wrong: Option<String>,
    (name, days): (&str, &str),
) -> Result<TokensPage, crate::ui::errors::UiError> {
    let own = visit.caller().id.to_string();
    let tokens = access::tokens(&visit.state).await?.items;
    let shown = tokens.into_iter().rev().map(|token| {
        let mine = token.id == own;
        (words::token_state(token.state), token.state == TokenState::Active, mine, token)
    });
    Ok(TokensPage {
        shell: visit.shell(Section::Settings, "Access tokens - Settings").await?,
        tab: "tokens",
        heads: Heads::new("/settings/tokens", &[], ""),
        tokens: shown.collect(),
        made,
        name: name.to_owned(),
        days: days.to_owned(),
        wrong,
    })
}

async fn ask_to_revoke(visit: &Visit, id: &str) -> PageResult {
    let tokens = access::tokens(&visit.state).await?.items;
    let token = tokens.into_iter().find(|token| token.id == id);
    let token = token.ok_or_else(|| AppError::not_found(format_args!("token `{id}`")))?;
    let mut text =
        vec!["Requests with this token are rejected from now on, and web sessions signed in with it end.".to_owned()];
    if visit.caller().id.to_string() == id {
        text.push("You are signed in with this token and will be signed out.".to_owned());
    }
    let confirmation = Confirmation {
        title: format!("Revoke token {}?", token.name),
        text,
        devices: Some(0),
        action: "/settings/tokens".to_owned(),
        fields: vec![("action", "revoke".to_owned()), ("id", id.to_owned())],
        verb: "revoke",
        button: "Revoke token".to_owned(),
        danger: true,
        back: "/settings/tokens".to_owned(),
    };
    confirm(visit, Section::Settings, confirmation).await
}

pub(in crate::ui) async fn act(posted: Posted) -> PageResult {
    let form = &posted.form;
    if form.text("action") == "revoke" {
        access::revoke_token(posted.state(), posted.caller(), form.text("id"), posted.comment()).await?;
        return Ok(go("/settings/tokens", Some(("revoked", "Token revoked."))));
    }
    let (name, days) = (form.text("name").to_owned(), form.text("days").to_owned());
    let valid_for_seconds = match days.as_str() {
        "" => None,
        days => Some(days.parse::<u64>().unwrap_or_default().saturating_mul(DAY_SECONDS)),
    };
    let body = CreateToken { name: name.clone(), valid_for_seconds, comment: posted.comment() };
    let work = access::create_token(posted.state(), posted.caller(), body);
    match posted.once(work).await {
        Ok(made) => posted.visit.show(&page(&posted.visit, Some(made), None, ("", "")).await?),
        Err(AppError::Refused { detail, errors, .. }) => {
            let wrong = errors.into_iter().map(|error| error.message).next().unwrap_or(detail);
            let page = page(&posted.visit, None, Some(wrong), (&name, &days)).await?;
            posted.visit.show_with(StatusCode::UNPROCESSABLE_ENTITY, &page)
        }
        Err(error) => Err(error.into()),
    }
}
