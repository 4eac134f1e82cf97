#!/usr/bin/env bash
# Imports the dashboard into a running Grafana, or replaces it there.
#
# GRAFANA_URL     default http://localhost:3000
# GRAFANA_TOKEN   token of a service account with the role Editor
#
# The dashboard has a menu of Prometheus data sources. Prometheus must scrape the service's admin listener under the job
# name gas-suggestion.

set -euo pipefail
cd "$(dirname "$0")"
dashboard=../../../config/grafana/dashboards/gas-suggestion.json

{ printf '{"overwrite":true,"dashboard":'; cat "$dashboard"; printf '}'; } |
    curl --silent --show-error --fail-with-body --data-binary @- \
        --header "Authorization: Bearer ${GRAFANA_TOKEN:?is not set}" \
        --header 'Content-Type: application/json' \
        "${GRAFANA_URL:-http://localhost:3000}/api/dashboards/db"
