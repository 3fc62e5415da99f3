#include "api.h"

#include "ownership.h"

static const struct route routes[] = {
	{ METHOD_POST, "/v1/services/{s}/pick", api_pick },
	{ METHOD_GET, "/v1/services/{s}/endpoints", api_endpoints },
	{ METHOD_POST, "/v1/services/{s}/reports", api_reports },
	{ METHOD_PUT, "/v1/services/{s}/endpoints/{id}/in-flight", api_in_flight },
	{ METHOD_PUT, "/v1/consumers/self/ack", api_ack },
	{ METHOD_GET, "/v1/services", api_services },
	{ METHOD_GET, "/v1/services/{s}", api_service },
	{ METHOD_GET, "/v1/services/{s}/explain", api_explain },
	{ METHOD_GET, "/v1/services/{s}/budget", api_budget },
	{ METHOD_GET, "/v1/budget", api_budgets },
	{ METHOD_GET, "/v1/sources", api_sources },
	{ METHOD_GET, "/v1/plugins", api_plugins },
	{ METHOD_GET, "/v1/consumers", api_consumers },
	{ METHOD_GET, "/v1/status", api_status },
	{ METHOD_GET, "/v1/drains", api_drains },
	{ METHOD_GET, "/v1/drains/{id}", api_drain },
	{ METHOD_POST, "/v1/drains", api_drain_start, .changes = true },
	{ METHOD_POST, "/v1/drains/{id}/cancel", api_drain_cancel, .changes = true },
	{ METHOD_POST, "/v1/restores", api_restore_start, .changes = true },
	{ METHOD_GET, "/v1/registrations", api_registrations },
	{ METHOD_GET, "/v1/registrations/{s}/{id}", api_registration },
	{ METHOD_PUT, "/v1/registrations/{s}/{id}", api_register, .changes = true },
	{ METHOD_DELETE, "/v1/registrations/{s}/{id}", api_deregister, .changes = true },
	{ METHOD_POST, "/v1/reload", api_reload, .changes = true },
	{ METHOD_GET, "/metrics", api_metrics, .open = true },
	{ METHOD_GET, "/healthz", api_healthz, .open = true },
	{ METHOD_GET, "/readyz", api_readyz, .open = true },
	{ METHOD_GET, "/", api_page, .open = true },
};

const struct route *api_routes(size_t *ret_count)
{
	*ret_count = ELEMENTS(routes);
	return routes;
}
