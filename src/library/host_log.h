// Messages for the log function of a host.
#pragma once

#include <string>

#include "base/log.h"
#include "penstock/penstock.h"

namespace penstock::library {

// Returns a sink that passes messages to the function of the host; an empty one if there is no function.
inline log::Sink SinkOf(penstock_log* log, void* context) {
  if (!log) return {};
  return [log, context](const log::Record& record) {
    // The names of modules are literals, which end in a NUL.
    const char* const module = record.module.data();  // NOLINT(bugprone-suspicious-stringview-data-usage)
    log(context, static_cast<penstock_log_level>(record.level), module, std::string(record.message).c_str());
  };
}

}  // namespace penstock::library
