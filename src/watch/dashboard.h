// The dashboard: one page without other files.
#pragma once

#include <string_view>

namespace penstock::watch {

// Returns the page (dashboard.html), as HTML. It reads dashboard.json from the same place once a second.
std::string_view DashboardPage();

}  // namespace penstock::watch
