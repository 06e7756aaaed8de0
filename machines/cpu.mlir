// The machine at hand as one memory and one compute queue: the embedded default. There is nothing to offload to.
//
// capacity: "physical" is what the operating system says the compiling machine has (sysconf: _SC_PHYS_PAGES * _SC_PAGESIZE);
// --memory=host=SIZE sets another budget.
module @cpu attributes {
  dlti.target_system_spec = #dlti.target_system_spec<
    "host" = #dlti.target_device_spec<"kind" = "memory", "capacity" = "physical">,
    "cpu" = #dlti.target_device_spec<"kind" = "engine", "computes_in" = "host">>
} {}
