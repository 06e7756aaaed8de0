//===- TraceFile.cpp - What ran when, for Perfetto ------------------------===//

#include "TraceFile.h"
#include "Files.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

using namespace forebay;
using namespace forebay::rt;
using Json = nlohmann::ordered_json;

static std::string jsonString(const std::string &text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

bool forebay::rt::writeTrace(const Session &session, const std::string &path, uint64_t &lost, std::string &error) {
  const Program &program = session.program();
  std::vector<std::vector<TraceEvent>> queues(program.queues.size());
  int64_t start = INT64_MAX;
  lost = 0;
  for (size_t i = 0; i < queues.size(); ++i) {
    uint64_t missing = 0;
    session.backend().trace(session.device(), uint32_t(i), queues[i], missing);
    lost += missing;
    if (!queues[i].empty())
      start = std::min(start, queues[i].front().begin);
  }
  AtomicFile file;
  if (!file.open(path, error))
    return false;
  // The fixed part of each command's slice is made once.
  std::vector<std::string> middle;
  for (const std::vector<Command> *list : {&program.step, &program.flush})
    for (const Command &command : *list) {
      std::string label = command.label;
      if (label.empty())
        label = command.kernel >= 0 ? program.kernels[command.kernel].name : "command";
      std::string text = ", \"name\": " + jsonString(label) + ", \"cat\": " + jsonString(command.phase) + ", \"args\": {\"command\": " +
                         std::to_string(middle.size()) + ", ";
      if (command.kernel >= 0)
        text += "\"kernel\": " + jsonString(program.kernels[command.kernel].name) + ", ";
      middle.push_back(text);
    }
  std::string text = "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"lost_events\": " + std::to_string(lost) + "}, \"traceEvents\": [\n";
  text += "{\"ph\": \"M\", \"pid\": 1, \"name\": \"process_name\", \"args\": {\"name\": \"forebay-run\"}}";
  for (size_t i = 0; i < queues.size(); ++i)
    text += ",\n{\"ph\": \"M\", \"pid\": 1, \"tid\": " + std::to_string(i + 1) +
            ", \"name\": \"thread_name\", \"args\": {\"name\": " + jsonString(program.queues[i].name) + "}}";
  for (size_t i = 0; i < queues.size(); ++i)
    for (const TraceEvent &event : queues[i]) {
      char numbers[160];
      std::snprintf(numbers, sizeof numbers, ",\n{\"ph\": \"X\", \"pid\": 1, \"tid\": %zu, \"ts\": %.3f, \"dur\": %.3f", i + 1,
                    double(event.begin - start) * 1e-3, double(event.end - event.begin) * 1e-3);
      text += numbers;
      text += middle[event.command];
      std::snprintf(numbers, sizeof numbers, "\"step\": %" PRIu64 ", \"micro\": %u}}",
                    session.attemptsBefore() + event.micro / program.accumulate + 1, event.micro % program.accumulate);
      text += numbers;
      if (text.size() > (1 << 20)) {
        if (!file.write(text.data(), text.size(), error))
          return false;
        text.clear();
      }
    }
  text += "\n]}\n";
  return file.write(text.data(), text.size(), error) && file.commit(error);
}
