#!/usr/bin/env bash
# Checks a systemd unit without systemd: syntax, known sections, and that its programs are in the package.
#   scripts/check-unit.sh FILE PACKAGE-ROOT
set -euo pipefail
unit="$1" root="$2" section="" number=0 problems=0
problem() { echo "$unit:$number: $1" >&2; problems=$((problems + 1)); }
starts=no installs=no
while IFS= read -r line || [ -n "$line" ]; do
  number=$((number + 1))
  case "$line" in
    '' | '#'* | ';'*) continue ;;
    '[Unit]' | '[Service]' | '[Install]') section="$line"; continue ;;
    '['*) problem "the section $line is not valid for a service"; continue ;;
  esac
  [[ "$line" =~ ^[A-Z][A-Za-z]+= ]] || { problem "\`$line\` is no setting"; continue; }
  key="${line%%=*}" value="${line#*=}"
  [ -n "$section" ] || problem "$key is in no section"
  case "$section $key" in
    '[Service] ExecStart')
      starts=yes
      program="${value%% *}"
      [ -x "$root$program" ] || problem "$program is not in the package"
      # Its configuration files must be in the package too.
      for word in $value; do
        case "$word" in /etc/*) [ -e "$root$word" ] || problem "$word is not in the package" ;; esac
      done ;;
    '[Install] WantedBy') installs=yes ;;
    '[Service] Exec'* | '[Service] '* | '[Unit] '* | '[Install] '*) ;;
  esac
done < "$unit"
[ "$starts" = yes ] || problem "there is no ExecStart"
[ "$installs" = yes ] || problem "there is no WantedBy: it could not be enabled"
[ "$problems" = 0 ]
