// Logging: one spdlog logger, made by main and reached through these functions. Messages are for the operator; what a
// peer sent is quoted only in bounded, printable form. Nothing on the data path logs above debug level.
#pragma once

#include <spdlog/spdlog.h>

namespace penstock::log {

using spdlog::debug;
using spdlog::error;
using spdlog::info;
using spdlog::trace;
using spdlog::warn;

// For messages whose arguments cost something to make.
inline bool debugging() { return spdlog::should_log(spdlog::level::debug); }

}  // namespace penstock::log
