"""ScalePlans and the membership lists that they change."""
