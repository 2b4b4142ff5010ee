// The objects behind the handles of the C API.
#pragma once

#include <memory>

#include "library/server/embedded.h"
#include "library/server/embedded_server.h"
#include "penstock/server.h"

struct penstock_server {
  penstock::library::EmbeddedServer server;
};

struct penstock_file_system {
  std::shared_ptr<penstock::library::Embedded> files;
};
