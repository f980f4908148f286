"""The Common Expression Language (CEL) with the types, functions and costs of Kubernetes.

`environment.compile_expression` parses and type-checks an expression; the result is evaluated with a cost limit. The
package is imported only when an object with rules, or a policy, is used.
"""
