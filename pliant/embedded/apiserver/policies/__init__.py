"""ValidatingAdmissionPolicies: rules in CEL that allow or deny writes of any kind."""
